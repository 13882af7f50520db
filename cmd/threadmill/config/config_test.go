package config_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/threadmill/threadmill/cmd/threadmill/config"
	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/templates"
	"github.com/threadmill/threadmill/templates/strictyaml"
)

// write writes a configuration into a new home and returns both.
func write(tb testing.TB, text string) (path, home string) {
	tb.Helper()
	home = tb.TempDir()
	path = filepath.Join(home, config.FileName)
	put(tb, path, text)
	return path, home
}

func put(tb testing.TB, path, text string) {
	tb.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
}

// load loads a configuration that has to be right.
func load(tb testing.TB, text string, env ...string) *config.Config {
	tb.Helper()
	path, home := write(tb, text)
	c, err := config.Load(path, append(env, "THREADMILL_HOME="+home))
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// refused loads a configuration that has to be wrong and returns the problems, one a
// line, without the path of the file.
func refused(tb testing.TB, text string, env ...string) []string {
	tb.Helper()
	path, home := write(tb, text)
	_, err := config.Load(path, append(env, "THREADMILL_HOME="+home))
	if err == nil {
		tb.Fatal("the configuration was accepted")
	}
	return strings.Split(strings.ReplaceAll(err.Error(), path+":", ""), "\n")
}

func TestDesignExample(t *testing.T) {
	t.Parallel()
	c := load(t, `
engine:
  allowed_working_dirs: [~/projects]
  on_lost: {action: resume, max: 1}
budget: {tz: Europe/Berlin}
agents:
  claude: {adapter: claude, working_dir: ~/projects/app, env_allowlist: [ANTHROPIC_API_KEY], max_concurrent: 3,
           idle_timeout: 1h, on_limit: {action: resume, max: 3},
           budget: {per_run_usd: 5, per_run_tokens: 9, per_user_day_usd: 20, per_day_usd: 100.5}, model: opus, allowed_tools: [Read], options: {effort: high}}
  gemini: {adapter: acp, binary: ./gemini, args: [--acp], enabled: false}
workers:
  arch: {agent: claude, channel: slack:C0ARCH, restart: {max: 1}}
schedules:
  nightly: {cron: "0 2 * * *", tz: Europe/Berlin, capability: claude, args: {n: 1}, channel: slack:C0123}
slack: {app_token: env:APP, bot_token: file:bot, command: /tm}
channels:
  slack:C0123: {capability: claude, project: app}
permissions:
- {who: [slack:U1, slack:group:S1, discord:role:9], may: [run, terminal.ro]}
- {who: ["*"], may: [view], capabilities: [claude]}
`, "APP=xapp-1")
	home := filepath.Dir(c.Path)
	if got := c.Agents["claude"]; got.Binary != "claude" || got.WorkingDir != home+"/projects/app" || got.OnBusy != "queue" {
		t.Errorf("claude: %+v", got)
	}
	if got := c.Agents["gemini"]; got.Binary != home+"/gemini" || got.WorkingDir != home+"/data/scratch" {
		t.Errorf("gemini: %+v", got)
	}
	if got := c.Workers["arch"]; got.Restart != (config.Restart{Max: 1, Backoff: 5 * time.Second}) && got.Restart.Max != 1 {
		t.Errorf("arch: %+v", got)
	}
	if diff := cmp.Diff([]string{"*"}, c.Permissions[0].Capabilities); diff != "" {
		t.Error(diff)
	}
	set, err := templates.Load(nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Catalog(set)
	if err != nil {
		t.Fatal(err)
	}
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	want := engine.Catalog{
		Agents: map[string]engine.Agent{"claude": {
			ID: "claude", Adapter: "claude", Binary: "claude", WorkingDir: home + "/projects/app", EnvAllowlist: []string{"ANTHROPIC_API_KEY"},
			MaxConcurrent: 3, OnBusy: engine.BusyQueue, IdleTimeout: time.Hour, ApprovalTimeout: 5 * time.Minute, OnTimeout: "deny", MaxOutputBytes: 1 << 30,
			Permission: "default", Options: map[string]any{"model": "opus", "allowed_tools": []string{"Read"}, "effort": "high"},
			Budget:  engine.Budget{PerRunUSD: 5, PerRunTokens: 9, PerUserDayUSD: 20, PerDayUSD: 100.5},
			OnLimit: engine.OnLimit{Resume: true, Max: 3},
		}},
		Workers:     map[string]engine.Worker{"arch": {AgentID: "claude", Channel: "slack:C0ARCH"}},
		AllowedDirs: []string{home + "/data/scratch", home + "/projects"}, MaxConcurrent: 8,
		OnLost:     engine.OnLost{Resume: true, Max: 1},
		BudgetZone: berlin,
		Retention:  engine.Retention{Logs: 720 * time.Hour, Executions: 8760 * time.Hour},
	}
	sameZone := cmp.Comparer(func(a, b *time.Location) bool { return a.String() == b.String() })
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(engine.Catalog{}, "Capabilities"), sameZone); diff != "" {
		t.Error(diff)
	}
	for key, agent := range map[string]string{"claude": "claude", "task": "claude", "demo": "", "gemini": "", "uptime": ""} {
		if got := got.Capabilities[key].AgentID; got != agent {
			t.Errorf("capability %s runs on %q, want %q", key, got, agent)
		}
	}
}

// TestNoFile: without any configuration the demonstration set-up is in force.
func TestNoFile(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	c, err := config.Load("", []string{"THREADMILL_HOME=" + home})
	if err != nil {
		t.Fatal(err)
	}
	if c.Path != "" || c.DataDir != home+"/data" || c.Listen != "127.0.0.1:4100" || c.PublicURL != "http://127.0.0.1:4100" {
		t.Errorf("%+v", c)
	}
	var got []string
	for _, a := range c.EngineAgents() {
		got = append(got, a.ID+" is "+a.Adapter+" in "+strings.TrimPrefix(a.WorkingDir, home))
	}
	if diff := cmp.Diff([]string{"demo is demo in /data/scratch", "shell is command in /data/scratch"}, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{home + "/data/scratch"}, c.AllowedDirs()); diff != "" {
		t.Error(diff)
	}
}

func TestSearch(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	named, user, own := home+"/named.yaml", home+"/.config/threadmill/threadmill.yaml", home+"/own/threadmill.yaml"
	for _, path := range []string{named, user, own} {
		put(t, path, "")
	}
	for want, c := range map[string]struct {
		path string
		env  []string
	}{
		named: {"", []string{"HOME=" + home, "THREADMILL_CONFIG=" + named}},
		user:  {"", []string{"HOME=" + home}},
		own:   {"", []string{"HOME=" + home, "THREADMILL_HOME=" + home + "/own"}},
		"":    {"", []string{"HOME=" + home + "/none"}},
	} {
		got, err := config.Load(c.path, c.env)
		if err != nil || got.Path != want {
			t.Errorf("got %v, %v, want %s", got, err, want)
		}
	}
	if got, err := config.Load(named, []string{"HOME=" + home, "THREADMILL_CONFIG=" + user}); err != nil || got.Path != named {
		t.Errorf("--config does not come first: %v, %v", got, err)
	}
	if _, err := config.Load(home+"/none.yaml", []string{"HOME=" + home}); err == nil || !strings.Contains(err.Error(), "does not exist; `threadmill init` writes one") {
		t.Errorf("a named file that is missing: %v", err)
	}
	if _, err := config.Load("", nil); err == nil || !strings.Contains(err.Error(), "data_dir: has to be given, since HOME is not set") {
		t.Errorf("no home at all: %v", err)
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	t.Parallel()
	got := refused(t, `data_dir: ~bob/data
listen: 4100
public_url: ftp://x
engine:
  max_concurrent: 0
  max_concurent: 1
  on_shutdown: die
  retention: {logs: -1h}
agents:
  Claude: {adapter: cluade}
  tui: {adapter: tui, on_busy: wait, idle_timeout: 5, env_allowlist: [A-B, THREADMILL_TOKEN, APP], budget: {per_run_usd: -1}, on_limit: {action: wait, max: -1}}
workers:
  w: {agent: none, channel: general}
schedules:
  s: {cron: "* *", tz: Mars/Phobos, overlap: maybe}
slack: {mode: http, app_token: env:APP, command: mill}
channels:
  C1: {}
permissions:
- {who: [bob], may: [fly]}
- {}
terminal: {token_ttl: 0s}
unknown: 1
`, "THREADMILL_ENGINE_ON_LOST_MAX=-1", "THREADMILL_BUDGET_TZ=Moon/Tycho", "THREADMILL_TERMINAL_SESSION_TTL=soon", "THREADMILL_PERMISSIONS=all")
	want := []string{
		"1:11: data_dir: another user's home (~name) is not resolved; write the path out",
		"2:9: listen: must be text, not a number; put it in quotes",
		"3:13: public_url: must be an address such as https://threadmill.example.org, without user and password",
		"5:19: engine.max_concurrent: must be at least 1",
		"6:3: engine.max_concurent: is not a known key; did you mean max_concurrent?",
		"7:16: engine.on_shutdown: must be one of detach, cancel",
		"8:21: engine.retention.logs: must not be negative",
		"10:3: agents.Claude: is not a name that can be used; take 1 to 40 small letters, digits, - and _",
		"10:21: agents.Claude.adapter: must be one of claude, codex, acp, tui, command, demo",
		"11:3: agents.tui.binary: is missing: adapter tui drives whatever program is named here",
		"11:32: agents.tui.on_busy: must be one of queue, steer, reject, concurrent",
		"11:52: agents.tui.idle_timeout: must be a duration with its unit, such as 30s, 5m or 720h",
		`11:71: agents.tui.env_allowlist[0]: "A-B" is not the name of a variable (letters, digits and _, not a digit first)`,
		"11:76: agents.tui.env_allowlist[1]: THREADMILL_TOKEN belongs to the service itself and is never handed to an agent",
		"11:94: agents.tui.env_allowlist[2]: APP is the service's own secret (slack.app_token) and is never handed to an agent",
		"11:100: agents.tui.budget: must not be negative",
		"11:146: agents.tui.on_limit.action: must be one of offer, resume",
		"11:157: agents.tui.on_limit.max: must be at least 0",
		"environment: THREADMILL_BUDGET_TZ: must be a time zone such as Europe/Berlin or UTC",
		"13:14: workers.w.agent: must be one of the agents: Claude, tui",
		"13:29: workers.w.channel: must be a channel such as slack:C0123ABC or discord:1234567890",
		"15:3: schedules.s.capability: is missing: what is to be run",
		`15:13: schedules.s.cron: must be five fields, such as "0 2 * * *" (minute, hour, day, month, weekday), or @daily`,
		"15:24: schedules.s.tz: must be a time zone such as Europe/Berlin or UTC",
		"15:46: schedules.s.overlap: must be one of skip, queue, concurrent",
		"16:1: slack.bot_token: is missing; Slack in mode http needs it",
		"16:1: slack.signing_secret: is missing; Slack in mode http needs it",
		"16:50: slack.command: must be a slash and a word, such as /mill",
		"18:3: channels.C1: must be a channel such as slack:C0123ABC or discord:1234567890",
		"20:10: permissions[0].who[0]: must be slack:U…, slack:group:S…, discord:ID, discord:role:ID, web or *",
		"20:22: permissions[0].may[0]: must be one of view, run, message, cancel, approve, schedule, worker, terminal.ro, terminal.rw, mcp, admin, *",
		"21:3: permissions[1]: needs who and may",
		"22:23: terminal.token_ttl: must be longer than 0",
		"23:1: unknown: is not a known key; there are: agents, budget, capabilities, channels, data_dir, discord, engine, listen, permissions, projects, public_url, schedules, slack, terminal, workers",
		"environment: THREADMILL_PERMISSIONS: cannot be set by the environment; write it into threadmill.yaml",
		"environment: THREADMILL_TERMINAL_SESSION_TTL: must be a duration with its unit, such as 30s, 5m or 720h",
		"environment: THREADMILL_ENGINE_ON_LOST_MAX: must be at least 0",
	}
	for i := range got {
		got[i] = strings.TrimSpace(got[i])
	}
	if diff := cmp.Diff(want, got, cmpopts.SortSlices(strings.Compare)); diff != "" {
		t.Error(diff)
	}
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	c := load(t, "listen: 127.0.0.1:1\nagents: {my-agent: {adapter: command, max_concurrent: 1}}\n",
		"THREADMILL_LISTEN=127.0.0.1:2", "THREADMILL_ENGINE_MAX_CONCURRENT=5", "THREADMILL_PROJECTS_SCAN_CLAUDE_PROJECTS=true",
		"THREADMILL_ENGINE_RETENTION_LOGS=1h", "THREADMILL_ENGINE_ALLOWED_WORKING_DIRS=/a, ~/b", "THREADMILL_AGENTS_MY_AGENT_MAX_CONCURRENT=7",
		"THREADMILL_AGENTS_MY_AGENT_BUDGET_PER_RUN_USD=0.5", "THREADMILL_DISCORD_TOKEN=env:TOK", "TOK=t0ken", "THREADMILL_PUBLIC_URL=",
		"THREADMILL_EXECUTION=a fact, not a setting")
	got := []any{
		c.Listen, c.PublicURL, c.Engine.MaxConcurrent, c.Projects.ScanClaudeProjects, c.Engine.Retention.Logs, c.Engine.AllowedWorkingDirs,
		c.Agents["my-agent"].MaxConcurrent, c.Agents["my-agent"].Budget.PerRunUSD, c.Discord.Token.Reveal(),
	}
	want := []any{"127.0.0.1:2", "http://127.0.0.1:2", 5, true, time.Hour, []string{"/a", filepath.Dir(c.Path) + "/b"}, 7, 0.5, "t0ken"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestEverySettingByEnvironment sets each scalar by its variable.
func TestEverySettingByEnvironment(t *testing.T) {
	t.Parallel()
	values := map[string]string{"string": "x", "int": "7", "int64": "7", "bool": "true", "float64": "7", "time.Duration": "7s", "config.Secret": "x"}
	var paths []string
	env := []string{}
	each(reflect.TypeFor[config.Config](), "", func(path string, ft reflect.Type) {
		if value, ok := values[ft.String()]; ok {
			paths = append(paths, path)
			env = append(env, "THREADMILL_"+strings.ToUpper(strings.ReplaceAll(path, ".", "_"))+"="+value)
		}
	})
	if len(paths) < 20 {
		t.Fatalf("only %d settings found", len(paths))
	}
	// All at once is not valid; what counts is that each is taken up.
	file, home := write(t, "")
	_, err := config.Load(file, append(env, "THREADMILL_HOME="+home))
	for p := range strings.SplitSeq(fmt.Sprint(err), "\n") {
		if !strings.HasPrefix(p, "environment: THREADMILL_") {
			t.Errorf("not taken from the environment: %s", p)
		}
	}
}

// each visits the settings that are not in maps or lists.
func each(t reflect.Type, path string, visit func(path string, ft reflect.Type)) {
	for _, f := range strictyaml.Fields(t) {
		ft := t.Field(f.Index).Type
		at := strings.TrimPrefix(path+"."+f.Name, ".")
		if ft.Kind() == reflect.Struct && ft != reflect.TypeFor[config.Secret]() {
			each(ft, at, visit)
			continue
		}
		visit(at, ft)
	}
}

// TestSecretsStaySecret: whatever is wrong around a secret, no text repeats it.
func TestSecretsStaySecret(t *testing.T) {
	t.Parallel()
	const secret = "xoxb-hush-4711"
	for _, text := range []string{
		"slack: {bot_token: " + secret + ", mode: x}\n",
		"slack: " + secret + "\n",
		"slack: {bot_token: [" + secret + "]}\n",
		"slack: {bot_token: env:" + secret + "}\n",
		"slack: {bot_token: " + secret + ": x}\n",
		"slack:\n  bot_token: \"" + secret + "\n",
		"listen: " + secret + "\n",
		"public_url: http://user:" + secret + "@x\n",
		"engine: {on_shutdown: " + secret + "}\n",
		"terminal: {token_ttl: " + secret + "}\n",
		"permissions: [{who: [" + secret + "], may: [" + secret + "]}]\n",
		"slack: {bot_token: " + secret + ", signing_secret: !!str " + secret + "}\n",
	} {
		for _, line := range refused(t, text, "THREADMILL_DISCORD_TOKEN="+secret) {
			if strings.Contains(line, "hush") {
				t.Errorf("%q: the problem repeats the secret: %s", text, line)
			}
		}
	}
	c := load(t, "slack: {bot_token: "+secret+", app_token: file:app}\ndiscord: {token: env:NONE}\n")
	js, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("configured", "token", c.Slack.BotToken, "all", c.Slack)
	for _, s := range []string{string(js), log.String(), fmt.Sprintf("%v %+v %#v %s %q", c, c.Slack, *c, c.Slack.BotToken, c.Slack.BotToken)} {
		if strings.Contains(s, "hush") {
			t.Errorf("the secret is shown: %s", s)
		}
	}
	if c.Slack.BotToken.Reveal() != secret {
		t.Error("the secret is lost")
	}
}

// TestUnresolvedSecrets: only what needs the secrets minds that they are not there.
func TestUnresolvedSecrets(t *testing.T) {
	t.Parallel()
	c := load(t, "slack: {bot_token: env:NONE, app_token: file:none, signing_secret: file:empty}\ndiscord: {token: ok}\n")
	err := c.CheckSecrets()
	got := strings.Split(strings.ReplaceAll(fmt.Sprint(err), c.Path+":", ""), "\n")
	want := []string{
		"1:20: slack.bot_token: the variable that it names is not set; set it for the service, or write file:/path",
		"1:41: slack.app_token: the file that it names does not exist",
		"1:68: slack.signing_secret: the file that it names does not exist",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	path, home := write(t, "slack: {bot_token: file:~/bot, app_token: lit}\n")
	put(t, home+"/bot", "from a file\n")
	c, err = config.Load(path, []string{"THREADMILL_HOME=" + home})
	if err != nil || c.CheckSecrets() != nil || c.Slack.BotToken.Reveal() != "from a file" {
		t.Errorf("%v, %v", err, c.CheckSecrets())
	}
}

// TestExample: what `init` writes loads, says the defaults, and names every key.
func TestExample(t *testing.T) {
	t.Parallel()
	got, want := load(t, config.Example()), load(t, "")
	ignore := cmp.Options{
		cmpopts.IgnoreUnexported(config.Config{}), cmpopts.IgnoreFields(config.Config{}, "Path", "DataDir"),
		cmpopts.EquateEmpty(), cmpopts.IgnoreFields(config.Agent{}, "WorkingDir"), cmp.Comparer(func(a, b config.Secret) bool { return a == b }),
	}
	if diff := cmp.Diff(want, got, ignore); diff != "" {
		t.Errorf("the example differs from the defaults: %s", diff)
	}
	for _, key := range keys(reflect.TypeFor[config.Config]()) {
		if !regexp.MustCompile(`(?m)[\s{#]` + key + `:`).MatchString("\n" + config.Example()) {
			t.Errorf("%s is not in the example", key)
		}
	}
}

// TestExampleUncommented: the commented parts are right as well.
func TestExampleUncommented(t *testing.T) {
	t.Parallel()
	text := regexp.MustCompile(`(?m)^(\s*)# ?(\s*(- \{|[a-z][A-Za-z0-9_:]*:( |$)))`).ReplaceAllString(config.Example(), "$1$2")
	text = strings.ReplaceAll(text, ": {}\n  ", ":\n  ")
	text = strings.ReplaceAll(text, "permissions: []", "permissions:")
	c := load(t, text)
	if len(c.Agents) != 4 || len(c.Workers) != 1 || len(c.Schedules) != 1 || len(c.Permissions) != 2 || len(c.Channels) != 1 || !c.Slack.AppToken.IsSet() {
		t.Errorf("not everything was uncommented:\n%s", text)
	}
}

// keys lists all keys of a struct and of what is in it.
func keys(t reflect.Type) []string {
	switch t.Kind() {
	case reflect.Slice, reflect.Map, reflect.Pointer:
		return keys(t.Elem())
	case reflect.Struct:
	default:
		return nil
	}
	var out []string
	for _, f := range strictyaml.Fields(t) {
		out = append(append(out, f.Name), keys(t.Field(f.Index).Type)...)
	}
	return out
}

func TestCapabilitiesBesideTheFile(t *testing.T) {
	t.Parallel()
	path, home := write(t, "")
	env := []string{"THREADMILL_HOME=" + home}
	before, err := config.Load(path, env)
	if err != nil || before.Capabilities != nil {
		t.Fatalf("%v, %v", before, err)
	}
	put(t, home+"/capabilities/a.yaml", "")
	after, err := config.Load(path, env)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{home + "/capabilities"}, after.Capabilities); diff != "" {
		t.Error(diff)
	}
	for _, c := range []*config.Config{before, after} {
		if got := strings.Join(c.WatchPaths(), " "); !strings.Contains(got, path) || !strings.Contains(got, home+"/capabilities") {
			t.Errorf("watched: %s", got)
		}
	}
}

func TestUnknownCapability(t *testing.T) {
	t.Parallel()
	c := load(t, "channels: {slack:C01: {capability: nothing}}\n")
	set, err := templates.Load(nil)
	if err != nil {
		t.Fatal(err)
	}
	catalog, err := c.Catalog(set)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.CheckNamed(catalog); err == nil || !strings.Contains(err.Error(), ":1:36: channels.slack:C01.capability: is not among the capabilities") {
		t.Errorf("got %v", err)
	}
}

func TestNeedsRestart(t *testing.T) {
	t.Parallel()
	a, b := load(t, "data_dir: /x\n"), load(t, "data_dir: /x\nlisten: 127.0.0.1:1\nslack: {bot_token: a, app_token: b}\nagents: {demo: {adapter: demo}}\n")
	if diff := cmp.Diff([]string{"listen", "public_url", "slack"}, a.NeedsRestart(b)); diff != "" {
		t.Error(diff)
	}
}

// FuzzLoad: no file makes the loader panic, every refusal lists problems, and what is
// accepted can be handed to the engine.
func FuzzLoad(f *testing.F) {
	f.Add([]byte(config.Example()))
	f.Add([]byte("agents: {a: {adapter: command, env_allowlist: [X]}}\nslack: {bot_token: env:X, app_token: y}\n"))
	f.Add([]byte("data_dir: ~\nschedules: {s: {cron: '@daily', tz: Local, capability: x}}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := config.Parse("x.yaml", data, []string{"HOME=/home/none", "X=secret"})
		if err != nil {
			var problems strictyaml.Problems
			if !asProblems(err, &problems) || len(problems) == 0 {
				t.Fatalf("not a list of problems: %v", err)
			}
			return
		}
		for _, a := range c.EngineAgents() {
			if !filepath.IsAbs(a.WorkingDir) || a.Adapter == "" {
				t.Fatalf("an agent that cannot run was accepted: %+v", a)
			}
		}
	})
}
