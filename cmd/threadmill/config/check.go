package config

import (
	"fmt"
	"math"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // zones are checked the same wherever the service runs

	"github.com/threadmill/threadmill/engine/safety"
	"github.com/threadmill/threadmill/templates/strictyaml"
)

// The forms of what people write. They are compiled where they are needed: as variables
// they would be in every process, also in the runners that read no configuration.
const (
	identifier = `^[a-z0-9][a-z0-9_-]{0,39}$`
	channel    = `^(slack:[A-Z0-9]{2,20}|discord:[0-9]{1,20})$`
	person     = `^(\*|web|slack:[A-Z0-9]+|slack:group:[A-Z0-9]+|discord:[0-9]+|discord:role:[0-9]+)$`
	cronField  = `^[0-9A-Za-z*?,/#-]+$`
)

func matches(form, s string) bool {
	matched, err := regexp.MatchString(form, s)
	return err == nil && matched
}

// Rights returns the rights that a permission may grant.
func Rights() []string {
	return []string{"view", "run", "message", "cancel", "approve", "schedule", "worker", "terminal.ro", "terminal.rw", "mcp", "admin", "*"}
}

// checker completes and checks one configuration.
type checker struct {
	c    *Config
	home *home
	env  map[string]string
	seen strictyaml.Problems
}

// wrong notes a problem with the setting at path, where it was set.
func (k *checker) wrong(path, format string, args ...any) {
	if name, ok := k.c.byEnv[path]; ok {
		k.seen = append(k.seen, strictyaml.Problem{File: "environment", Path: name, Message: fmt.Sprintf(format, args...)})
		return
	}
	k.seen = append(k.seen, k.c.document.Problem(path, format, args...))
}

// complete fills in what follows from other settings.
func (k *checker) complete() {
	c := k.c
	if c.DataDir == "" {
		k.wrong("data_dir", "has to be given, since HOME is not set")
	}
	k.path("data_dir", &c.DataDir)
	k.paths("engine.allowed_working_dirs", c.Engine.AllowedWorkingDirs)
	k.paths("projects.roots", c.Projects.Roots)
	k.paths("capabilities", c.Capabilities)
	if c.Capabilities == nil {
		k.besideConfiguration()
	}
	for _, id := range sortedKeys(c.Agents) {
		a := c.Agents[id]
		k.completeAgent("agents."+id, &a)
		c.Agents[id] = a
	}
	if c.PublicURL == "" {
		c.PublicURL = "http://" + c.Listen
	}
	k.secrets()
}

// besideConfiguration takes the folder of capabilities that lies beside the
// configuration, where there is one, and watches for it where there is none.
func (k *checker) besideConfiguration() {
	dir, err := k.home.abs("capabilities")
	if err != nil {
		return
	}
	k.c.watched = append(k.c.watched, dir)
	if isDir(dir) {
		k.c.Capabilities = []string{dir}
	}
}

func (k *checker) completeAgent(path string, a *Agent) {
	if a.WorkingDir == "" {
		a.WorkingDir = k.c.Scratch()
	} else {
		k.path(path+".working_dir", &a.WorkingDir)
	}
	if a.Binary == "" && (a.Adapter == "claude" || a.Adapter == "codex") {
		a.Binary = a.Adapter
	}
	if strings.ContainsAny(a.Binary, "/~") {
		k.path(path+".binary", &a.Binary)
	}
	if a.MCPConfig != "" {
		k.path(path+".mcp_config", &a.MCPConfig)
	}
}

func (k *checker) path(path string, value *string) {
	abs, err := k.home.abs(*value)
	if err != nil {
		k.wrong(path, "%v", err)
		return
	}
	*value = abs
}

func (k *checker) paths(path string, values []string) {
	for i := range values {
		k.path(fmt.Sprintf("%s[%d]", path, i), &values[i])
	}
}

// secrets resolves all secrets and notes those without a value for CheckSecrets.
func (k *checker) secrets() {
	secrets := k.c.secrets()
	for _, path := range sortedKeys(secrets) {
		s := secrets[path]
		if !s.IsSet() {
			continue
		}
		if err := s.resolve(k.home, k.env); err != nil {
			before := k.seen
			k.wrong(path, "%v", err)
			k.c.unsolved = append(k.c.unsolved, k.seen[len(before):]...)
			k.seen = before
		}
	}
}

// secrets lists all secrets by their paths.
func (c *Config) secrets() map[string]*Secret {
	return map[string]*Secret{
		"slack.app_token":      &c.Slack.AppToken,
		"slack.bot_token":      &c.Slack.BotToken,
		"slack.signing_secret": &c.Slack.SigningSecret,
		"discord.token":        &c.Discord.Token,
	}
}

// CheckSecrets returns a problem for each secret whose variable or file has no value.
// The service needs all of them; the command line does without.
func (c *Config) CheckSecrets() error { return slices.Clone(c.unsolved).OrNil() }

// check finds everything that is wrong with the values.
func (k *checker) check() {
	c := k.c
	if _, port, err := net.SplitHostPort(c.Listen); err != nil || !isPort(port) {
		k.wrong("listen", "must be host:port, such as 127.0.0.1:4100")
	}
	k.address("public_url", c.PublicURL)
	k.atLeast("engine.max_concurrent", c.Engine.MaxConcurrent, 1)
	k.oneOf("engine.on_shutdown", c.Engine.OnShutdown, "detach", "cancel")
	k.oneOf("engine.on_lost.action", c.Engine.OnLost.Action, "fail", "resume")
	k.atLeast("engine.on_lost.max", c.Engine.OnLost.Max, 0)
	k.notNegative("engine.retention.logs", c.Engine.Retention.Logs)
	k.notNegative("engine.retention.executions", c.Engine.Retention.Executions)
	k.zone("budget.tz", c.Budget.TZ)
	k.positive("terminal.token_ttl", c.Terminal.TokenTTL)
	k.positive("terminal.session_ttl", c.Terminal.SessionTTL)
	k.agents()
	k.workers()
	k.schedules()
	k.chat()
	k.permissions()
}

func (k *checker) oneOf(path, value string, allowed ...string) {
	if !slices.Contains(allowed, value) {
		k.wrong(path, "must be one of %s", strings.Join(allowed, ", "))
	}
}

func (k *checker) atLeast(path string, value, minimum int) {
	if value < minimum {
		k.wrong(path, "must be at least %d", minimum)
	}
}

func (k *checker) notNegative(path string, value time.Duration) {
	if value < 0 {
		k.wrong(path, "must not be negative")
	}
}

func (k *checker) positive(path string, value time.Duration) {
	if value <= 0 {
		k.wrong(path, "must be longer than 0")
	}
}

func (k *checker) zone(path, value string) {
	if _, err := time.LoadLocation(value); err != nil || value == "" {
		k.wrong(path, "must be a time zone such as Europe/Berlin or UTC")
	}
}

func (k *checker) address(path, value string) {
	u, err := url.Parse(value)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
		k.wrong(path, "must be an address such as https://threadmill.example.org, without user and password")
	}
}

func (k *checker) id(path, id string) {
	if !matches(identifier, id) {
		k.wrong(path, "is not a name that can be used; take 1 to 40 small letters, digits, - and _")
	}
}

func isPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && n <= 65535
}

func (k *checker) agents() {
	for _, id := range sortedKeys(k.c.Agents) {
		path := "agents." + id
		k.id(path, id)
		k.agent(path, k.c.Agents[id])
	}
}

func (k *checker) agent(path string, a Agent) {
	k.oneOf(path+".adapter", a.Adapter, "claude", "codex", "acp", "tui", "command", "demo")
	if (a.Adapter == "acp" || a.Adapter == "tui") && a.Binary == "" {
		k.wrong(path+".binary", "is missing: adapter %s drives whatever program is named here", a.Adapter)
	}
	k.oneOf(path+".on_busy", a.OnBusy, "queue", "steer", "reject", "concurrent")
	k.oneOf(path+".permission_mode", a.PermissionMode, modes()...)
	k.oneOf(path+".workspace", a.Workspace, "shared", "worktree")
	k.atLeast(path+".max_concurrent", a.MaxConcurrent, 0)
	k.atLeast(path+".max_turns", a.MaxTurns, 0)
	k.notNegative(path+".idle_timeout", a.IdleTimeout)
	k.notNegative(path+".approval_timeout", a.ApprovalTimeout)
	k.oneOf(path+".on_approval_timeout", a.OnTimeout, "deny", "wait", "remind")
	if a.OnTimeout == "remind" && a.ApprovalTimeout == 0 {
		k.wrong(path+".on_approval_timeout", "remind needs an approval_timeout, after which it is asked again")
	}
	k.notNegative(path+".timeout", a.Timeout)
	if a.MaxOutputBytes < 0 {
		k.wrong(path+".max_output_bytes", "must not be negative")
	}
	b := a.Budget
	if !isAmount(b.PerRunUSD) || !isAmount(b.PerUserDayUSD) || !isAmount(b.PerDayUSD) || b.PerRunTokens < 0 {
		k.wrong(path+".budget", "must not be negative")
	}
	k.oneOf(path+".on_limit.action", a.OnLimit.Action, "offer", "resume")
	k.atLeast(path+".on_limit.max", a.OnLimit.Max, 0)
	k.allowlist(path+".env_allowlist", a.EnvAllowlist)
}

// isAmount reports whether a budget can be that: neither negative nor infinite nor no
// number at all, all of which YAML can say.
func isAmount(usd float64) bool { return usd >= 0 && !math.IsInf(usd, 0) }

// allowlist refuses variables that are the service's own: its settings, and the ones
// that it takes its secrets from.
func (k *checker) allowlist(path string, names []string) {
	for i, name := range names {
		at := fmt.Sprintf("%s[%d]", path, i)
		if err := safety.CheckEnvName(name); err != nil {
			k.wrong(at, "%s", strings.TrimPrefix(err.Error(), "env_allowlist: "))
		}
		for of, s := range k.c.secrets() {
			if s.variable() == name {
				k.wrong(at, "%s is the service's own secret (%s) and is never handed to an agent", name, of)
			}
		}
	}
}

func (k *checker) workers() {
	for _, id := range sortedKeys(k.c.Workers) {
		path, w := "workers."+id, k.c.Workers[id]
		k.id(path, id)
		if _, ok := k.c.Agents[w.Agent]; !ok {
			k.wrong(path+".agent", "must be one of the agents: %s", strings.Join(sortedKeys(k.c.Agents), ", "))
		}
		k.channel(path+".channel", w.Channel)
		k.oneOf(path+".on_busy", w.OnBusy, "queue", "steer", "reject")
		k.atLeast(path+".restart.max", w.Restart.Max, 0)
		k.positive(path+".restart.backoff", w.Restart.Backoff)
		k.notNegative(path+".inactivity_timeout", w.InactivityTimeout)
		k.positive(path+".health_interval", w.HealthInterval)
	}
}

func (k *checker) schedules() {
	for _, id := range sortedKeys(k.c.Schedules) {
		path, s := "schedules."+id, k.c.Schedules[id]
		k.id(path, id)
		k.cron(path+".cron", s.Cron)
		k.zone(path+".tz", s.TZ)
		if s.Capability == "" {
			k.wrong(path+".capability", "is missing: what is to be run")
		}
		if s.Channel != "" {
			k.channel(path+".channel", s.Channel)
		}
		k.oneOf(path+".overlap", s.Overlap, "skip", "queue", "concurrent")
		k.oneOf(path+".missed", s.Missed, "skip", "once", "all")
	}
}

func (k *checker) cron(path, text string) {
	fields := strings.Fields(text)
	bad := len(fields) != 5 && !strings.HasPrefix(text, "@")
	for _, f := range fields {
		bad = bad || !strings.HasPrefix(text, "@") && !matches(cronField, f)
	}
	if bad {
		k.wrong(path, `must be five fields, such as "0 2 * * *" (minute, hour, day, month, weekday), or @daily`)
	}
}

func (k *checker) channel(path, value string) {
	if !matches(channel, value) {
		k.wrong(path, "must be a channel such as slack:C0123ABC or discord:1234567890")
	}
}

func (k *checker) chat() {
	s, d := &k.c.Slack, &k.c.Discord
	k.oneOf("slack.mode", s.Mode, "socket", "http")
	k.address("slack.api_url", s.APIURL)
	k.address("discord.api_url", d.APIURL)
	if !strings.HasPrefix(s.Command, "/") || len(s.Command) < 2 || strings.ContainsAny(s.Command, " \t") {
		k.wrong("slack.command", "must be a slash and a word, such as /mill")
	}
	if s.AppToken.IsSet() || s.BotToken.IsSet() || s.SigningSecret.IsSet() {
		k.needed("slack.bot_token", s.BotToken, true)
		k.needed("slack.app_token", s.AppToken, s.Mode == "socket")
		k.needed("slack.signing_secret", s.SigningSecret, s.Mode == "http")
	}
	for _, key := range sortedKeys(k.c.Channels) {
		k.channel("channels."+key, key)
	}
}

func (k *checker) needed(path string, s Secret, needed bool) {
	if needed && !s.IsSet() {
		k.wrong(path, "is missing; Slack in mode %s needs it", k.c.Slack.Mode)
	}
}

func (k *checker) permissions() {
	for i, p := range k.c.Permissions {
		path := fmt.Sprintf("permissions[%d]", i)
		if len(p.Who) == 0 || len(p.May) == 0 {
			k.wrong(path, "needs who and may")
		}
		for j, who := range p.Who {
			if !matches(person, who) {
				k.wrong(fmt.Sprintf("%s.who[%d]", path, j), "must be slack:U…, slack:group:S…, discord:ID, discord:role:ID, web or *")
			}
		}
		for j, right := range p.May {
			k.oneOf(fmt.Sprintf("%s.may[%d]", path, j), right, Rights()...)
		}
	}
}
