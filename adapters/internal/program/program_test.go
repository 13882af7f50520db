package program_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/threadmill/threadmill/adapters/internal/program"
	"github.com/threadmill/threadmill/engine/agent"
)

func write(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, mode); err != nil {
		t.Fatal(err)
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	write(t, in("bin/tool"), 0o700)
	write(t, in("other/tool"), 0o700)
	write(t, in("other/plain"), 0o600)
	env := []string{"PATH=/nowhere", "HOME=/", "PATH=bin:" + in("bin") + "::" + in("other")}
	for _, c := range []struct {
		name, want string
		err        error
	}{
		{"tool", in("bin/tool"), nil},
		{"./bin/tool", in("bin/tool"), nil},
		{in("other/tool"), in("other/tool"), nil},
		{"plain", "", fs.ErrPermission},
		{"./other/plain", "", fs.ErrPermission},
		{"./bin", "", fs.ErrPermission},
		{"missing", "", exec.ErrNotFound},
		{"./missing", "", exec.ErrNotFound},
		{"bin", "", exec.ErrNotFound},
		{"", "", exec.ErrNotFound},
	} {
		got, err := program.Find(c.name, env, dir)
		if !errors.Is(err, c.err) || err == nil && got != c.want {
			t.Errorf("Find(%q) = %q, %v, want %q, %v", c.name, got, err, c.want, c.err)
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "plain"), 0o600)
	for name, hint := range map[string]string{"": "install it", "missing": "install it", "./plain": "chmod +x"} {
		got := program.Check(agent.Job{Argv: []string{name}, Dir: dir}, "install it")
		if got.OK || got.Problem == "" || !strings.Contains(got.Hint, hint) {
			t.Errorf("Check(%q) = %+v, want the hint %q", name, got, hint)
		}
	}
}

func TestEnding(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		st   agent.ExitStatus
		want string
	}{
		{agent.ExitStatus{}, ""},
		{agent.ExitStatus{Tail: "a warning\n"}, ""},
		{agent.ExitStatus{Code: 3}, "exited with code 3"},
		{agent.ExitStatus{Code: 3, Tail: "1\n2\n\n 3\r\n\x1b4\xff\n"}, "exited with code 3: 2 / 3 / 4"},
		{agent.ExitStatus{Code: -1, Signal: "SIGSEGV", Tail: "oh"}, "was ended by SIGSEGV: oh"},
	} {
		if got := program.Ending(c.st); got != c.want {
			t.Errorf("Ending(%+v) = %q, want %q", c.st, got, c.want)
		}
	}
	long := program.Ending(agent.ExitStatus{Code: 1, Tail: strings.Repeat("ä", 100_000)})
	if len(long) > 500 || !utf8.ValidString(long) {
		t.Errorf("a long tail makes %d bytes", len(long))
	}
}

func TestQuote(t *testing.T) {
	t.Parallel()
	for want, argv := range map[string][]string{
		"":                             nil,
		"ls -l /tmp/a.b":               {"ls", "-l", "/tmp/a.b"},
		"echo '' 'a b' 'it'\\''s'":     {"echo", "", "a b", "it's"},
		"echo '$(id)' '*' 'a;b' grün":  {"echo", "$(id)", "*", "a;b", "grün"},
		`echo $'a\nb\'\"\x1b' $'\n\"'`: {"echo", "a\nb'\"\x1b", "\n\""},
	} {
		if got := program.Quote(argv); got != want {
			t.Errorf("Quote(%q) = %s, want %s", argv, got, want)
		}
	}
}

// FuzzQuote lets bash read what was quoted: it must see the same words.
func FuzzQuote(f *testing.F) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		f.Skip("bash is not here to read")
	}
	f.Add("a b", "it's")
	f.Add("a\nb\\'\"", "\x1b[0m\xff")
	f.Fuzz(func(t *testing.T, a, b string) {
		if strings.ContainsRune(a+b, 0) || !utf8.ValidString(a+b) {
			t.Skip("no argument can have that, or no terminal show it")
		}
		script := "printf '%s\\0' " + program.Quote([]string{a, b})
		cmd := exec.CommandContext(t.Context(), bash, "--norc", "-c", script)
		cmd.Env = []string{"LC_ALL=C.UTF-8"}
		out, err := cmd.Output()
		if err != nil || string(out) != a+"\x00"+b+"\x00" {
			t.Errorf("%s gives %q (%v)", script, out, err)
		}
	})
}
