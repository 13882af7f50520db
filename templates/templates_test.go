package templates_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/safety"
	"github.com/threadmill/threadmill/templates"
)

const tailLog = `key: tail-log
label: Tail a service log
agent: shell
mode: template
command: [journalctl, -u, "{{unit}}", -n, "{{lines}}", --no-pager]
args_schema: {type: object, required: [unit], additionalProperties: false,
  properties: {unit: {type: string, pattern: "^[a-z0-9@.-]+$"}, lines: {type: integer, default: 100, maximum: 1000}}}
timeout: 30s
max_output_bytes: 10485760
`

func agents() map[string]engine.Agent {
	return map[string]engine.Agent{
		"demo":   {ID: "demo", Adapter: "demo"},
		"shell":  {ID: "shell", Adapter: "command"},
		"zealot": {ID: "zealot", Adapter: "claude"},
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func load(t *testing.T, dirs ...string) templates.Set {
	t.Helper()
	set, err := templates.Load(dirs)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestBuiltIn(t *testing.T) {
	t.Parallel()
	all, err := load(t).Bind(agents())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"demo", "disk", "git-log", "git-status", "list-files", "tail-file", "task", "uptime", "zealot"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(all))); diff != "" {
		t.Error(diff)
	}
	for key, c := range all {
		if c.Source != templates.BuiltIn || c.Label == "" || c.AgentID == "" {
			t.Errorf("%s: %+v", key, c)
		}
	}
	if got := all["task"].AgentID; got != "zealot" {
		t.Errorf("task runs on %s, want a real agent before the demo", got)
	}
}

// TestBuiltInPaths: what strangers name in chat stays below the working directory.
func TestBuiltInPaths(t *testing.T) {
	t.Parallel()
	all, err := load(t).Bind(agents())
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"tail-file", "list-files"} {
		s, err := safety.Compile(all[key].ArgsSchema)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"a", "a/b.txt", "a b/c-d_e", "A.1/x..y"} {
			if _, err := s.Check(map[string]any{"path": path}); err != nil {
				t.Errorf("%s: %q was refused: %v", key, path, err)
			}
		}
		for _, path := range []string{"", "..", "../a", "a/../b", "/etc/passwd", ".env", "a/.git/config", "-rf", "a/-rf", "~/x", "$HOME", "a;b", "a//b", "a\nb"} {
			if _, err := s.Check(map[string]any{"path": path}); err == nil {
				t.Errorf("%s: %q was taken", key, path)
			}
		}
	}
}

func TestFolderOverridesBuiltIn(t *testing.T) {
	t.Parallel()
	first, second := t.TempDir(), t.TempDir()
	write(t, first, "tail.yaml", tailLog)
	write(t, first, "up.yml", strings.ReplaceAll(tailLog, "tail-log", "uptime"))
	write(t, first, ".#tail.yaml", "what editors leave")
	write(t, first, "README.md", "not a capability")
	write(t, second, "tail.yaml", strings.Replace(tailLog, "30s", "40s", 1))
	all, err := load(t, first, second).Bind(agents())
	if err != nil {
		t.Fatal(err)
	}
	want := engine.Capability{
		ID: "tail-log", Label: "Tail a service log", AgentID: "shell", Mode: engine.ModeTemplate,
		Command: []string{"journalctl", "-u", "{{unit}}", "-n", "{{lines}}", "--no-pager"},
		ArgsSchema: map[string]any{
			"type": "object", "required": []any{"unit"}, "additionalProperties": false,
			"properties": map[string]any{
				"unit":  map[string]any{"type": "string", "pattern": "^[a-z0-9@.-]+$"},
				"lines": map[string]any{"type": "integer", "default": int64(100), "maximum": int64(1000)},
			},
		},
		Timeout: 40 * time.Second, MaxOutputBytes: 10 << 20, Source: filepath.Join(second, "tail.yaml"),
	}
	if diff := cmp.Diff(want, all["tail-log"]); diff != "" {
		t.Error(diff)
	}
	if got := all["uptime"].Source; got != filepath.Join(first, "up.yml") {
		t.Errorf("uptime comes from %s", got)
	}
}

func TestAllProblemsOfAllFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a.yaml", `key: Tail Log
label: ""
agent: shell
mode: template
command: [tail, "-n{{lines}}", "{{path}}", "{{other}}"]
args_schema:
  properties:
    lines: {type: integer, default: many}
    path: {type: array}
timeout: -1s
`)
	write(t, dir, "b.yaml", "key: b\nlabel: B\nmode: prompt\nprompt: \"do {{this}}\"\nworking_dir: here\n")
	write(t, dir, "c.yaml", "key: b\nlabel: B\nmode: prompt\nprompt: do\ncommand: [ls]\n")
	write(t, dir, "d.yaml", "kye: b\ntimeout: 30\n")
	write(t, dir, "e.yaml", "key: e\nlabel: E\nagent: shell\nmode: template\ncommand: [\"{{x}}\", \"a{{x}}\", ok]\nargs_schema: {properties: {x: {}, y: {}, z: {format: multiline}}}\n")
	write(t, dir, "f.yaml", "# no label\nkey: f\nmode: prompt\nprompt: do\n")
	_, err := templates.Load([]string{dir, filepath.Join(dir, "none")})
	got := strings.ReplaceAll(fmt.Sprint(err), dir+"/", "")
	want := `a.yaml:1:6: key: must be 1 to 40 small letters, digits and dashes, such as tail-log
a.yaml:2:8: label: is missing: a few words for people
a.yaml:5:1: command: "-n{{lines}}" must be either literal text or exactly one {{name}}
a.yaml:8:37: args_schema.properties.lines.default: must be an integer, not a string
a.yaml:9:5: args_schema.properties.path: type array is not possible: an argument is a string, an integer, a number or a boolean
a.yaml:10:10: timeout: must not be negative
b.yaml:4:9: prompt: {{this}} is neither declared in args_schema nor one of text, title, context, docs_path
b.yaml:5:14: working_dir: must be an absolute path
c.yaml:1:6: key: b is the key of b.yaml already
c.yaml:5:1: command: belongs to mode template; this is mode prompt
d.yaml:1:1: kye: is not a known key; did you mean key?
d.yaml:2:10: timeout: must be a duration with its unit, such as 30s, 5m or 720h
e.yaml:5:1: command: the program has to be named literally, not by an argument
e.yaml:5:1: command: "a{{x}}" must be either literal text or exactly one {{name}}
e.yaml:5:1: command: the argument y is declared and never used
e.yaml:5:1: command: the argument z is declared and never used
e.yaml:6:42: args_schema.properties.z: text of many lines is only possible in a prompt
f.yaml:2:1: label: is missing: a few words for people
none: does not exist; create the folder or take it out of ` + "`capabilities`"
	if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")); diff != "" {
		t.Error(diff)
	}
}

func TestBindRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text   string
		agents map[string]engine.Agent
		want   string
	}{
		"no such agent":     {strings.Replace(tailLog, "agent: shell", "agent: shall", 1), agents(), "x.yaml:3:8: agent: there is no agent shall in the configuration"},
		"command on prompt": {strings.Replace(tailLog, "agent: shell", "agent: demo", 1), agents(), "a command needs one with adapter: command"},
		"prompt on command": {"key: p\nlabel: P\nagent: shell\nmode: prompt\nprompt: do\n", agents(), "takes no prompts"},
		"nobody to ask":     {"key: p\nlabel: P\nmode: prompt\nprompt: do\n", nil, "none that takes prompts is configured"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, dir, "x.yaml", c.text)
			_, err := load(t, dir).Bind(c.agents)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// FuzzParse: no capability file makes the parser panic, and what it takes holds only
// tokens that can be rendered.
func FuzzParse(f *testing.F) {
	f.Add([]byte(tailLog))
	f.Add([]byte("key: b\nlabel: B\nmode: prompt\nprompt: \"do {{this}}\"\nargs_schema: {properties: {this: {type: string}}}\n"))
	f.Add([]byte("args_schema: {$ref: '#', properties: {a: {$ref: '#/properties/a'}}}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, _, problems := templates.Parse("x.yaml", data)
		if len(problems) > 0 {
			return
		}
		s, err := safety.Compile(c.ArgsSchema)
		if err != nil {
			t.Fatalf("taken, but its schema does not compile: %v", err)
		}
		if c.Mode == engine.ModeTemplate && safety.CheckCommand(c.Command, s) != nil || c.Mode == engine.ModePrompt && safety.CheckPrompt(c.Prompt, s) != nil {
			t.Fatalf("taken, but cannot be rendered: %+v", c)
		}
	})
}
