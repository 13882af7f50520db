package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
)

// TestMain lets scripts run this test binary as threadmill itself, and the benchmark
// as a program that writes a lot.
func TestMain(m *testing.M) {
	if len(os.Args) == 5 && os.Args[1] == "produce" {
		if err := runProducer(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	testscript.Main(tests{m}, map[string]func(){"threadmill": main})
}

// tests are the package's tests with what has to hold after them.
type tests struct{ *testing.M }

// Run runs the tests and looks for goroutines that they left.
func (m tests) Run() int {
	defer removeBinary()
	code := m.M.Run()
	http.DefaultClient.CloseIdleConnections()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	return code
}

// result is what one run of the program did.
type result struct {
	code     int
	out, err string
}

// invoke runs the program in this process, away from the user's own files.
func invoke(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	home := t.TempDir()
	environ := []string{"THREADMILL_HOME=" + home, "HOME=" + home, "PATH=" + os.Getenv("PATH")}
	var out, err bytes.Buffer
	code := run(t.Context(), args, streams{in: strings.NewReader(stdin), out: &out, err: &err}, environ)
	return result{code, out.String(), err.String()}
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		args []string
		code int
		says string // on either stream
	}{
		{"help", []string{"--help"}, exitOK, "Executions:"},
		{"nothing", nil, exitOK, "Usage:"},
		{"unknown command", []string{"bogus"}, exitUsage, `unknown command "bogus"`},
		{"unknown flag", []string{"ps", "--bogus"}, exitUsage, "unknown flag: --bogus"},
		{"too many arguments", []string{"version", "x"}, exitUsage, `"x"`},
		{"too few arguments", []string{"show"}, exitUsage, "accepts 1 arg"},
		{"no execution", []string{"show", "x"}, exitUsage, `"x" is neither the number of an execution`},
		{"control characters are not echoed", []string{"show", "\x1b[31mx"}, exitUsage, `"[31mx" is neither`},
		{"two parents", []string{"run", "demo", "--parent", "1", "--resume", "2"}, exitUsage, "--parent and --resume"},
		{"fork of nothing", []string{"run", "demo", "--fork"}, exitUsage, "--fork needs --resume"},
		{"bad status", []string{"ps", "--status", "lost"}, exitUsage, `"lost" is no status`},
		{"status and all", []string{"ps", "--all", "--status", "failed"}, exitUsage, "contradict"},
		{"no server", []string{"ps", "--server", "http://127.0.0.1:1"}, exitFailed, "THREADMILL_TOKEN"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := invoke(t, "", c.args...)
			if got.code != c.code || !strings.Contains(got.out+got.err, c.says) {
				t.Errorf("exit code %d, want %d; said:\n%s%s\nwant: %s", got.code, c.code, got.out, got.err, c.says)
			}
		})
	}
}

func TestErrorsGoToStandardError(t *testing.T) {
	t.Parallel()
	got := invoke(t, "", "bogus")
	if got.out != "" || !strings.HasPrefix(got.err, "threadmill: ") {
		t.Errorf("standard output %q, standard error %q", got.out, got.err)
	}
}

func TestTheLastOfSeveralVariablesCounts(t *testing.T) {
	t.Parallel()
	a := &app{environ: []string{"A=1", "AB=2", "A=3", "TMUX=x"}}
	if got := a.getenv("A"); got != "3" {
		t.Errorf("A is %q, want 3", got)
	}
	if got := a.getenv("B"); got != "" {
		t.Errorf("B is %q, want nothing", got)
	}
	for _, entry := range a.environWithout("TMUX", "TMUX_PANE") {
		if strings.HasPrefix(entry, "TMUX=") {
			t.Error("TMUX is still there")
		}
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out bytes.Buffer
	code := run(ctx, []string{"ps", "--server", "http://127.0.0.1:1"}, streams{in: &out, out: &out, err: &out}, []string{"THREADMILL_TOKEN=" + strings.Repeat("x", 40)})
	if code != exitFailed {
		t.Errorf("exit code %d, want %d", code, exitFailed)
	}
}
