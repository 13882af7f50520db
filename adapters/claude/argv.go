package claude

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/threadmill/threadmill/engine/agent"
)

// plan is how the CLI is to be started.
type plan struct {
	argv []string
	env  []string
}

// modes are the permission modes by the names that both kinds of versions take: newer
// ones list "manual" in their help, which older ones refuse, and all take "default".
func modes() []string {
	return []string{"default", "acceptEdits", "plan", "dontAsk", "bypassPermissions"}
}

func planOf(job agent.Job) (plan, error) {
	if len(job.Argv) == 0 {
		return plan{}, errors.New("its argv is empty")
	}
	if job.Fork && job.SessionRef == "" {
		return plan{}, errors.New("a fork needs the session that it copies")
	}
	if strings.HasPrefix(job.SessionRef, "-") {
		return plan{}, fmt.Errorf("%q is no session: it would be taken for a flag", job.SessionRef)
	}
	o, err := optionsOf(job.Options)
	if err != nil {
		return plan{}, err
	}
	mode, err := modeOf(job.Permission)
	if err != nil {
		return plan{}, err
	}
	argv := append(slices.Clone(job.Argv),
		"-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose",
		"--include-partial-messages", "--replay-user-messages")
	argv = append(argv, o.flags(job)...)
	argv = append(argv, "--permission-prompt-tool", "stdio", "--permission-mode", mode)
	return plan{argv: append(argv, sessionFlags(job)...), env: environOf(job.Env)}, nil
}

// environOf adds what makes the CLI say whether it works, and say on its output why it
// could not start; and an agent must not replace its own program under a run.
func environOf(env []string) []string {
	return append(slices.Clone(env), "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS=1",
		"CLAUDE_CODE_STARTUP_FAILURE_RESULTS=1", "DISABLE_AUTOUPDATER=1")
}

func modeOf(permission string) (string, error) {
	switch {
	case permission == "", permission == "manual":
		return "default", nil
	case slices.Contains(modes(), permission):
		return permission, nil
	}
	return "", fmt.Errorf("permission mode %q is none of %s", permission, strings.Join(modes(), ", "))
}

func sessionFlags(job agent.Job) []string {
	switch {
	case job.Fork:
		return []string{"--resume", job.SessionRef, "--fork-session", "--session-id", newUUID()}
	case job.SessionRef != "":
		return []string{"--resume", job.SessionRef}
	}
	return []string{"--session-id", newUUID()}
}

// options is what the configuration says for this adapter alone.
type options struct {
	model, effort string
	allowed       []string
	disallowed    []string
	maxTurns      int
	systemPrompt  string
	mcpConfig     string
}

// optionsOf reads the options. One that is unknown is an error: it would otherwise be
// a wish that nobody grants.
func optionsOf(values map[string]any) (o options, err error) {
	text := func(to *string, v any) (ok bool) { *to, ok = v.(string); return ok }
	for _, name := range slices.Sorted(maps.Keys(values)) {
		v := values[name]
		var ok bool
		switch name {
		case "model":
			ok = text(&o.model, v)
		case "effort":
			ok = text(&o.effort, v)
		case "append_system_prompt":
			ok = text(&o.systemPrompt, v)
		case "mcp_config":
			ok = text(&o.mcpConfig, v)
		case "allowed_tools":
			o.allowed, ok = words(v)
		case "disallowed_tools":
			o.disallowed, ok = words(v)
		case "max_turns":
			o.maxTurns, ok = number(v)
		default:
			return options{}, fmt.Errorf("option %q is unknown to the claude adapter; it has %s", name, optionNames)
		}
		if !ok {
			return options{}, fmt.Errorf("option %q of the claude adapter cannot be %v", name, v)
		}
	}
	return o, nil
}

const optionNames = "model, effort, allowed_tools, disallowed_tools, max_turns, append_system_prompt, mcp_config"

// words reads a list of words that no flag can be mistaken for.
func words(v any) ([]string, bool) {
	list, ok := v.([]string)
	if raw, isAny := v.([]any); isAny {
		ok = true
		for _, item := range raw {
			word, isText := item.(string)
			ok = ok && isText
			list = append(list, word)
		}
	}
	bad := func(word string) bool { return word == "" || word[0] == '-' }
	return list, ok && !slices.ContainsFunc(list, bad)
}

// number reads a positive whole number, as YAML or JSON have it.
func number(v any) (int, bool) {
	switch n := v.(type) {
	case int:
		return n, n > 0
	case int64:
		return int(n), n > 0
	case float64:
		return int(n), n > 0 && n == float64(int(n))
	case json.Number:
		i, err := strconv.Atoi(n.String())
		return i, err == nil && i > 0
	}
	return 0, false
}

// flags returns the flags for the options. Those that take many words would swallow
// what follows, so another flag must: the caller sees to it.
func (o options) flags(job agent.Job) []string {
	var argv []string
	one := func(flag, value string) {
		if value != "" {
			argv = append(argv, flag, value)
		}
	}
	many := func(flag string, values []string) {
		if len(values) > 0 {
			argv = append(append(argv, flag), values...)
		}
	}
	one("--model", o.model)
	one("--effort", o.effort)
	one("--append-system-prompt", systemPrompt(o.systemPrompt, job.OutputDir))
	if o.maxTurns > 0 {
		one("--max-turns", strconv.Itoa(o.maxTurns))
	}
	many("--allowedTools", o.allowed)
	many("--disallowedTools", o.disallowed)
	many("--add-dir", extraDirs(job))
	one("--mcp-config", o.mcpConfig)
	return argv
}

// systemPrompt tells the agent how to hand files back.
func systemPrompt(configured, outputDir string) string {
	if outputDir == "" {
		return configured
	}
	note := "Files that the user is to receive belong in the directory " + outputDir + ": what is there is sent to them. Everything else stays where it is."
	return strings.TrimSpace(configured + "\n\n" + note)
}

// extraDirs are the directories beside the working directory that the agent is meant
// to use without asking.
func extraDirs(job agent.Job) []string {
	var dirs []string
	if job.OutputDir != "" {
		dirs = append(dirs, job.OutputDir)
	}
	for _, file := range job.Attachments {
		dirs = append(dirs, filepath.Dir(file))
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// newUUID returns a random UUID, the only form of a session's name that the CLI takes.
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return formatUUID(b, 4)
}

// messageUUID names a message for the CLI. The same message always has the same name:
// the CLI drops a name that it has seen, so nothing is said twice.
func messageUUID(executionID, messageID string) string {
	sum := sha256.Sum256([]byte(executionID + "\x00" + messageID))
	return formatUUID([16]byte(sum[:16]), 8)
}

func formatUUID(b [16]byte, version byte) string {
	b[6] = b[6]&0x0f | version<<4
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:])
}
