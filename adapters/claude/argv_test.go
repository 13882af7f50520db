package claude

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/threadmill/threadmill/engine/agent"
)

var uuidForm = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[48][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

const (
	fixedBegin = "claude -p --input-format stream-json --output-format stream-json --verbose --include-partial-messages --replay-user-messages "
	fixedEnd   = "--permission-prompt-tool stdio --permission-mode "
)

// argvOf is a job's command line on one line, the random session's name replaced.
func argvOf(t *testing.T, job agent.Job) string {
	t.Helper()
	job.Argv = []string{"claude"}
	p, err := planOf(job)
	if err != nil {
		t.Fatal(err)
	}
	for i, word := range p.argv {
		if uuidForm.MatchString(word) {
			p.argv[i] = "UUID"
		}
	}
	return strings.Join(p.argv, " ")
}

func TestArgv(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		job  agent.Job
		want string
	}{
		{"nothing", agent.Job{}, fixedBegin + fixedEnd + "default --session-id UUID"},
		{"manual is default", agent.Job{Permission: "manual"}, fixedBegin + fixedEnd + "default --session-id UUID"},
		{"resume", agent.Job{SessionRef: "abc", Permission: "plan"}, fixedBegin + fixedEnd + "plan --resume abc"},
		{"fork", agent.Job{SessionRef: "abc", Fork: true}, fixedBegin + fixedEnd + "default --resume abc --fork-session --session-id UUID"},
		{
			"options",
			agent.Job{Options: map[string]any{
				"model": "opus", "effort": "high", "allowed_tools": []any{"Read", "Bash(git log *)"}, "disallowed_tools": []string{"WebFetch"},
				"max_turns": float64(3), "append_system_prompt": "be brief", "mcp_config": "/etc/mcp.json",
			}},
			fixedBegin + "--model opus --effort high --append-system-prompt be brief --max-turns 3 --allowedTools Read Bash(git log *) " +
				"--disallowedTools WebFetch --mcp-config /etc/mcp.json " + fixedEnd + "default --session-id UUID",
		},
		{
			"directories",
			agent.Job{Attachments: []string{"/in/a", "/in/b"}},
			fixedBegin + "--add-dir /in " + fixedEnd + "default --session-id UUID",
		},
	} {
		if diff := cmp.Diff(c.want, argvOf(t, c.job)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
	if got := argvOf(t, agent.Job{OutputDir: "/out"}); !strings.Contains(got, "sent to them") || !strings.Contains(got, "--add-dir /out --permission-prompt-tool") {
		t.Errorf("the agent is not told of the output directory: %s", got)
	}
}

func TestArgvRefused(t *testing.T) {
	t.Parallel()
	option := func(name string, v any) agent.Job {
		return agent.Job{Argv: []string{"claude"}, Options: map[string]any{name: v}}
	}
	for name, job := range map[string]agent.Job{
		"argv is empty":              {},
		"a fork needs":               {Argv: []string{"claude"}, Fork: true},
		"be taken for a flag":        {Argv: []string{"claude"}, SessionRef: "--print"},
		`permission mode "yolo"`:     {Argv: []string{"claude"}, Permission: "yolo"},
		`"colour" is unknown`:        option("colour", "red"),
		`"model" of the claude`:      option("model", 7),
		`"max_turns" of the claude`:  option("max_turns", 1.5),
		`"allowed_tools" of the cla`: option("allowed_tools", []any{"--dangerously-skip-permissions"}),
		`"disallowed_tools" of the `: option("disallowed_tools", []any{7}),
	} {
		if _, err := planOf(job); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("planOf(%+v) = %v, want an error with %q", job, err, name)
		}
	}
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	given := []string{"PATH=/bin", "DISABLE_AUTOUPDATER=0"}
	got := environOf(given)
	if !slices.Contains(got, "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS=1") || got[len(got)-1] != "DISABLE_AUTOUPDATER=1" {
		t.Errorf("the environment is %q", got)
	}
	if len(given) != 2 {
		t.Error("the job's own environment was changed")
	}
}

// The CLI drops a name that it has seen: a message must keep its own, and no two may
// share one.
func TestMessageNames(t *testing.T) {
	t.Parallel()
	a, b := messageUUID("x", "m1"), messageUUID("x", "m2")
	if a == b || a == messageUUID("xm", "1") || a != messageUUID("x", "m1") || !uuidForm.MatchString(a) {
		t.Errorf("names %s and %s", a, b)
	}
	one, other := newUUID(), newUUID()
	if one == other || !uuidForm.MatchString(one) {
		t.Error("names of sessions are not unique UUIDs")
	}
}

func TestPrompt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		writeFile(t, path, content)
		return path
	}
	png := write("a.png", "\x89PNG\r\n\x1a\nrest")
	jpeg := write("b.bin", "\xff\xd8\xffrest")
	gif, webp := write("c", "GIF89a"), write("d", "RIFF1234WEBPVP8 ")
	fake := write("fake.png", "no picture")
	large := write("large.gif", "GIF89a"+strings.Repeat("x", maxImage))
	for _, c := range []struct {
		text  string
		files []string
		want  string
	}{
		{"hi", nil, `"content":"hi"`},
		{"hi", []string{fake, large, dir, dir + "/gone"}, `"content":"hi\n\nAttached files:\n- ` + fake + `\n- ` + large + `\n- ` + dir + `\n- ` + dir + `/gone"`},
		{"", []string{png}, `"content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgpyZXN0"}}]`},
		{"see", []string{jpeg}, `"media_type":"image/jpeg","data":"/9j/cmVzdA=="}},{"type":"text","text":"see"}]`},
		{"", []string{gif, webp, fake}, `{"type":"text","text":"Attached files:\n- ` + fake + `"}]`},
	} {
		line, err := userMessage("u", c.text, c.files, "")
		if err != nil || !strings.Contains(string(line), c.want) {
			t.Errorf("userMessage(%q, %q) = %s, %v; want %s", c.text, c.files, line, err, c.want)
		}
	}
}
