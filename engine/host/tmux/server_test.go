package tmux_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/threadmill/threadmill/engine/host/tmux"
)

// The test binary is also the program in the panes: a pane has none of our
// environment, so the switch is the first argument.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "pane" {
		pane(os.Args[2], os.Args[3:])
		return
	}
	goleak.VerifyTestMain(m)
}

// pane writes what it was started with to a file and stays until its terminal is gone.
func pane(path string, args []string) {
	b, err := json.Marshal(map[string][]string{"args": args, "env": os.Environ()})
	if err == nil {
		err = os.WriteFile(path+".new", b, 0o600)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// tmuxPath finds tmux. A machine without it fails the tests rather than passing them.
func tmuxPath(tb testing.TB) string {
	tb.Helper()
	path, err := exec.LookPath("tmux")
	if err != nil {
		tb.Fatal("tmux is needed; `make test` installs it, or: apt-get install tmux")
	}
	return path
}

// shortDir is a directory whose path leaves room for a socket's name.
func shortDir(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("", "tm") //nolint:usetesting // TempDir's paths are too long for sockets
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// start returns a server of the test's own and the function that asks it something
// from outside. The server is ended with the test.
func start(tb testing.TB, timeout time.Duration) (*tmux.Server, func(words ...string) string) {
	tb.Helper()
	dir := shortDir(tb)
	s := tmux.New(tmux.Options{Path: tmuxPath(tb), Dir: dir, Timeout: timeout, Logger: slog.New(slog.DiscardHandler)})
	ask := func(words ...string) string {
		out, _ := exec.CommandContext(context.Background(), s.Path(), append([]string{"-S", s.Socket()}, words...)...).CombinedOutput()
		return strings.TrimSpace(string(out))
	}
	tb.Cleanup(func() {
		ask("kill-server")
		s.Close()
	})
	return s, ask
}

// eventually waits until ok holds.
func eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			tb.Fatalf("never: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

type started struct{ Args, Env []string }

// launch starts a pane program and returns what it was started with.
func launch(tb testing.TB, s *tmux.Server, name string, args ...string) started {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "started")
	argv := append([]string{self(tb), "pane", path}, args...)
	if err := s.NewSession(tb.Context(), name, "1", argv); err != nil {
		tb.Fatal(err)
	}
	var got started
	eventually(tb, "the pane's program starts", func() bool {
		b, err := os.ReadFile(path)
		return err == nil && json.Unmarshal(b, &got) == nil
	})
	return got
}

func self(tb testing.TB) string {
	tb.Helper()
	path, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

func sessions(tb testing.TB, s *tmux.Server) map[string]bool {
	tb.Helper()
	names, err := s.Sessions(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	return names
}

// nasty are arguments that a shell, a quoting mistake or tmux's own formats would change.
var nasty = []string{
	"", " ", "a b", `it's`, `''`, `"`, `\`, `\\`, `\n`, "line\nend", "\r\n", "\ttab", "$HOME", "${HOME}", "~", "#{pid}", "#S", "%1",
	"; kill-server", "{ }", "}", "$(reboot)", "`id`", "-x", "--", "=x", "ä€😀", "\xff\xfe", "\x1b[31m", "%end 1 2 1", "*", "#", "a;", ";",
}

func TestArgumentsArriveUnchanged(t *testing.T) {
	t.Parallel()
	s, _ := start(t, 0)
	got := launch(t, s, "args", nasty...)
	want := make([]string, len(nasty))
	for i, arg := range nasty { // JSON has no invalid UTF-8
		b, _ := json.Marshal(arg)
		_ = json.Unmarshal(b, &want[i])
	}
	if diff := cmp.Diff(want, got.Args); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
}

func TestSessionsLiveAndEnd(t *testing.T) {
	t.Parallel()
	s, _ := start(t, 0)
	launch(t, s, "one")
	launch(t, s, "two")
	if diff := cmp.Diff(map[string]bool{"one": true, "two": true}, sessions(t, s)); diff != "" {
		t.Errorf("sessions (-want +got):\n%s", diff)
	}
	if err := s.NewSession(t.Context(), "one", "1", []string{"/bin/false", "x"}); err != nil {
		t.Errorf("a session that exists already: %v", err)
	}
	for range 2 {
		if err := s.KillSession(t.Context(), "one"); err != nil {
			t.Error(err)
		}
	}
	if diff := cmp.Diff(map[string]bool{"two": true}, sessions(t, s)); diff != "" {
		t.Errorf("sessions (-want +got):\n%s", diff)
	}
}

func TestOneWordIsRefused(t *testing.T) {
	t.Parallel()
	s, _ := start(t, 0)
	if err := s.NewSession(t.Context(), "x", "1", []string{"reboot; true"}); err == nil {
		t.Error("a command of one word, which tmux gives to a shell, was taken")
	}
}

func TestNothingOfOurEnvironmentGetsIn(t *testing.T) {
	t.Setenv("THREADMILL_TEST_MARKER", "marker-value")
	t.Setenv("SSH_AUTH_SOCK", "/marker-value")
	t.Setenv("DISPLAY", "marker-value")
	s, ask := start(t, 0)
	got := launch(t, s, "env")
	for _, where := range []string{ask("show-environment", "-g"), ask("show-environment", "-t", "=env"), strings.Join(got.Env, "\n")} {
		if strings.Contains(where, "marker-value") || strings.Contains(where, "HOME=") {
			t.Errorf("our environment reached tmux:\n%s", where)
		}
	}
}

func TestRunsOutliveTheClientAndTheServerEndsWithTheLast(t *testing.T) {
	t.Parallel()
	s, ask := start(t, 0)
	launch(t, s, "stays")
	s.Close()
	if _, err := s.Sessions(t.Context()); err == nil {
		t.Error("a closed server still answers")
	}
	eventually(t, "our own session goes with our client", func() bool {
		return ask("list-sessions", "-F", "#{session_name}") == "stays"
	})
	ask("kill-session", "-t", "=stays")
	eventually(t, "the server ends", func() bool { return strings.Contains(ask("list-sessions"), "no server running") })
}

func TestServerDeathIsSurvived(t *testing.T) {
	t.Parallel()
	s, ask := start(t, 0)
	for i := range 5 {
		launch(t, s, "before")
		kill(t, ask, syscall.SIGKILL)
		launch(t, s, fmt.Sprint("after", i))
		if got := sessions(t, s); got["before"] || !got[fmt.Sprint("after", i)] {
			t.Fatalf("sessions after the server's death: %v", got)
		}
	}
}

// kill signals the tmux server, found by its own answer.
func kill(tb testing.TB, ask func(...string) string, sig syscall.Signal) int {
	tb.Helper()
	pid, err := strconv.Atoi(ask("display-message", "-p", "#{pid}"))
	if err != nil {
		tb.Fatal(err)
	}
	if err := syscall.Kill(pid, sig); err != nil {
		tb.Fatal(err)
	}
	return pid
}

func TestStoppedServerDoesNotHangUs(t *testing.T) {
	t.Parallel()
	s, ask := start(t, 300*time.Millisecond)
	eventually(t, "a first session on a busy machine", func() bool {
		return s.NewSession(t.Context(), "first", "1", []string{"/bin/cat", "-"}) == nil
	})
	pid := kill(t, ask, syscall.SIGSTOP)
	defer func() { _ = syscall.Kill(pid, syscall.SIGCONT) }()
	for range 3 {
		if _, err := s.Sessions(t.Context()); err == nil {
			t.Fatal("a stopped server answered")
		}
	}
	done := make(chan struct{})
	go func() {
		s.Close()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatal("Close waits for a server that is stopped")
	}
}

func TestMissingAndBrokenBinary(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	missing := tmux.New(tmux.Options{Path: filepath.Join(dir, "none"), Dir: dir, Logger: slog.New(slog.DiscardHandler)})
	defer missing.Close()
	if err := missing.NewSession(t.Context(), "x", "1", []string{"a", "b"}); err == nil {
		t.Error("a missing tmux started something")
	}
	broken := tmux.New(tmux.Options{Path: "/bin/false", Dir: dir, Logger: slog.New(slog.DiscardHandler)})
	defer broken.Close()
	if err := broken.NewSession(t.Context(), "x", "1", []string{"a", "b"}); err == nil {
		t.Error("a broken tmux started something")
	}
}

func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	s, _ := start(t, 20*time.Second)
	var wg sync.WaitGroup
	for i := range 30 {
		wg.Go(func() {
			if err := s.NewSession(context.WithoutCancel(t.Context()), fmt.Sprint("s", i), "1", []string{"/bin/cat", "-"}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := len(sessions(t, s)); got != 30 {
		t.Errorf("%d sessions, want 30", got)
	}
}

// tmux answers the commands of its configuration as well; none of these answers may
// be taken for that to a command of ours.
func TestAnswersBelongToTheirCommands(t *testing.T) {
	t.Parallel()
	for range 10 {
		s, _ := start(t, 20*time.Second)
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				if there, err := s.HasSession(t.Context(), "none"); err != nil || there {
					t.Errorf("a session that does not exist is there: %v, error %v", there, err)
				}
				name := fmt.Sprint("s", i)
				if err := s.NewSession(t.Context(), name, "1", []string{"/bin/cat", "-"}); err != nil {
					t.Error(err)
				}
				if there, err := s.HasSession(t.Context(), name); err != nil || !there {
					t.Errorf("a session that exists is not there: %v, error %v", there, err)
				}
			})
		}
		wg.Wait()
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	s, _ := start(t, 0)
	if v, err := s.Version(t.Context()); err != nil || v == "" {
		t.Errorf("version %q, error %v", v, err)
	}
}

// A viewer presses every prefix and every bound key there is: nothing may open.
func TestKeysOpenNothing(t *testing.T) {
	t.Parallel()
	s, ask := start(t, 0)
	launch(t, s, "view")
	screen := attach(t, s.AttachArgv("view", false))
	for _, keys := range []string{"\x02c", "\x02:new-window\r", "\x02%", "\x02\"", "\x01c", "\x02[", "\x02w", "\x02?", "\x1b[<2;5;5M", "\x02d"} {
		if _, err := screen.Write([]byte(keys)); err != nil {
			t.Fatal(err)
		}
	}
	ask("refresh-client") // a round trip: the server has the keys by now
	if got := ask("list-keys"); !strings.HasPrefix(got, "bind-key") || strings.Count(got, "\n") != 0 || !strings.Contains(got, "detach-client") {
		t.Errorf("bound keys:\n%s", got)
	}
	if got := ask("list-panes", "-a", "-F", "#{session_name} #{pane_in_mode}"); got != "threadmill 0\nview 0" && got != "view 0\nthreadmill 0" {
		t.Errorf("panes after the keys:\n%s", got)
	}
	if got := ask("list-clients", "-t", "=view", "-F", "x"); got != "x" {
		t.Errorf("clients after the keys: %q", got)
	}
}

// attach runs a viewer on a terminal of its own and reads what it shows.
func attach(tb testing.TB, argv []string) *os.File {
	tb.Helper()
	p := exec.CommandContext(context.Background(), argv[0], argv[1:]...)
	p.Env = []string{"TERM=xterm-256color"}
	screen, err := pty.Start(p)
	if err != nil {
		tb.Fatal(err)
	}
	first := make(chan struct{})
	var reading sync.WaitGroup
	reading.Go(func() {
		buf := make([]byte, 4096)
		_, err := screen.Read(buf)
		close(first)
		for err == nil {
			_, err = screen.Read(buf)
		}
	})
	tb.Cleanup(func() {
		_ = p.Process.Kill()
		_ = p.Wait()
		reading.Wait()
		_ = screen.Close()
	})
	<-first
	return screen
}
