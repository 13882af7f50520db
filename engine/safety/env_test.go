package safety_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/threadmill/threadmill/engine/safety"
)

func TestEnv(t *testing.T) {
	t.Parallel()
	base := map[string]string{
		"PATH": "/bin", "HOME": "/home/me", "USER": "me", "LANG": "C.UTF-8", "TZ": "UTC",
		"SLACK_BOT_TOKEN": "xoxb-1", "THREADMILL_TOKEN": "t", "THREADMILL_SLACK_BOT_TOKEN": "s", "TERM": "dumb", "TMUX": "/tmp/x",
		"ANTHROPIC_API_KEY": "sk-1", "EMPTY": "", "BROKEN": "a\x00b", "LD_PRELOAD": "evil.so", "A=B": "c",
	}
	got := safety.Env(base, []string{"ANTHROPIC_API_KEY", "EMPTY", "BROKEN", "THREADMILL_TOKEN", "ABSENT", "HOME", "A=B"},
		map[string]string{"THREADMILL_EXECUTION": "id", "not a name": "x"})
	want := []string{
		"ANTHROPIC_API_KEY=sk-1", "COLORTERM=truecolor", "EMPTY=", "HOME=/home/me", "LANG=C.UTF-8", "PATH=/bin",
		"TERM=xterm-256color", "THREADMILL_EXECUTION=id", "TZ=UTC", "USER=me",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := safety.Env(nil, nil, nil); !slices.Contains(got, "PATH=/usr/local/bin:/usr/bin:/bin") {
		t.Errorf("nothing could be started: %q", got)
	}
}

func TestCheckEnvName(t *testing.T) {
	t.Parallel()
	for name, ok := range map[string]bool{
		"ANTHROPIC_API_KEY": true, "_x1": true, "SLACK_BOT_TOKEN": true,
		"": false, "1A": false, "A-B": false, "A=B": false, "A B": false, "A\n": false, "Ä": false,
		"THREADMILL_TOKEN": false, "threadmill_token": false,
	} {
		if err := safety.CheckEnvName(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestSecrets(t *testing.T) {
	t.Parallel()
	env := []string{
		"API_KEY=secret-1", "my_token=secret-2", "DB_PASSWORD=secret-3", "Credentials=secret-4", "SHORT_KEY=abc",
		"PATH=/usr/local/bin:/usr/bin:/bin", "DSN=postgres0user1pw2", "FOLDER=/a/b/c/d/e/f/g/h1", "WORDS=justalongwordwithoutanything",
		"SENTENCE=several words and 1 number", "OTHER=0123456789abcdef", "TWICE_KEY=secret-1",
	}
	got := safety.Secrets(env, []string{"DSN", "FOLDER", "WORDS", "SENTENCE"})
	want := []string{"postgres0user1pw2", "secret-1", "secret-2", "secret-3", "secret-4"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	got, err := safety.Text("text", "line\r\n\tnext – ü 🚂\n")
	if err != nil || got != "line\n\tnext – ü 🚂\n" {
		t.Errorf("got %q, %v", got, err)
	}
	for _, s := range []string{"\x1b[31m", "a\x00", "\xff", "bell\a", "lone\rreturn", strings.Repeat("a", 257<<10)} {
		if _, err := safety.Text("text", s); err == nil || !strings.HasPrefix(err.Error(), "text: ") {
			t.Errorf("%.20q: %v", s, err)
		}
	}
}
