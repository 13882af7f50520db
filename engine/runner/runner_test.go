package runner_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/proc"
	"github.com/threadmill/threadmill/engine/rundir"
	"github.com/threadmill/threadmill/engine/runner"
)

// want is what a result must say.
type want struct {
	status  rundir.Status
	reason  agent.Reason
	code    int // of the exit; -1: ended by a signal
	signal  string
	ended   int
	message string // part of it
}

func (w want) check(tb testing.TB, g *rig, res rundir.Result) {
	tb.Helper()
	code := 0
	if res.ExitCode != nil {
		code = *res.ExitCode
	}
	ok := res.Status == w.status && res.Reason == w.reason && code == w.code && res.Signal == w.signal &&
		res.Ended == w.ended && strings.Contains(res.Message, w.message)
	if !ok {
		tb.Errorf("result %+v (exit code %d), want %+v\n%s\n%s", res, code, w, g.log(), g.dump())
	}
}

func TestCommandEnds(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		argv []string
		want want
		log  string
	}{
		"succeeds": {
			argv: []string{"say", "hello", secret},
			want: want{status: rundir.Succeeded},
			log:  "[stdout] hello [masked]\n",
		},
		"fails": {
			argv: []string{"fail"},
			want: want{status: rundir.Failed, reason: agent.ReasonExitCode, code: 3, message: "it went wrong"},
			log:  "[stderr] it went wrong\n[system] exited with code 3: it went wrong\n",
		},
		"writes a secret in two pieces": {
			argv: []string{"pieces", "it is s3cret", "-V4lue", `, said\nno`, " end"},
			want: want{status: rundir.Succeeded},
			log:  "[stdout] it is [masked], said\n[stdout] no end\n",
		},
		"leaves a child in another session": {
			argv: []string{"leave", "sleep"},
			want: want{status: rundir.Succeeded, ended: 1},
			log:  "[stdout] left\n",
		},
		"leaves a child that ignores SIGTERM": {
			argv: []string{"leave", "ignore-term", "sleep"},
			want: want{status: rundir.Succeeded, ended: 1},
			log:  "[stdout] left\n",
		},
		"leaves a child that holds its output": {
			argv: []string{"leave-holding", "sleep"},
			want: want{status: rundir.Succeeded, ended: 1},
			log:  "[stdout] left\n[stdout] asleep\n",
		},
		"has no terminal to ask at": {
			argv: []string{"ctty"},
			want: want{status: rundir.Succeeded},
			log:  "[stdout] terminal: false\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newRig(t, tc.argv...)
			g.spec.KillGrace = rundir.Duration(300 * time.Millisecond)
			res := g.start().end()
			tc.want.check(t, g, res)
			if got := sorted(g.log()); got != sorted(tc.log) {
				t.Errorf("log %q, want %q", got, tc.log)
			}
		})
	}
}

// sorted sorts lines: which of two processes writes first is open.
func sorted(s string) string {
	lines := strings.SplitAfter(s, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "")
}

func TestSignalledCommand(t *testing.T) {
	t.Parallel()
	g := newRig(t, "killed")
	res := g.start().end()
	want{status: rundir.Failed, reason: agent.ReasonExitCode, code: -1, signal: "SIGKILL"}.check(t, g, res)
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	for name, argv := range map[string][]string{
		"SIGTERM": {"sleep"}, "SIGKILL": {"ignore-term", "sleep"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newRig(t, argv...)
			g.spec.Timeout = rundir.Duration(500 * time.Millisecond)
			g.spec.KillGrace = rundir.Duration(300 * time.Millisecond)
			res := g.start().end()
			want{status: rundir.TimedOut, code: -1, signal: name, ended: 1, message: "500ms"}.check(t, g, res)
		})
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		argv  []string
		grace time.Duration
		force bool
		want  want
	}{
		"SIGTERM":        {[]string{"sleep"}, time.Hour, false, want{signal: "SIGTERM", ended: 1}},
		"SIGKILL":        {[]string{"ignore-term", "sleep"}, 300 * time.Millisecond, false, want{signal: "SIGKILL", ended: 1}},
		"force":          {[]string{"sleep"}, time.Hour, true, want{signal: "SIGKILL", ended: 1}},
		"forced at last": {[]string{"ignore-term", "sleep"}, time.Hour, false, want{signal: "SIGKILL", ended: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newRig(t, tc.argv...)
			g.spec.KillGrace = rundir.Duration(tc.grace)
			g.start()
			c := g.dial()
			g.until("it sleeps", func() bool { return strings.Contains(g.log(), "asleep") })
			if rep := g.do(c, rundir.Command{Op: rundir.OpCancel, By: "carol", Force: tc.force}); !rep.OK {
				t.Errorf("reply %+v", rep)
			}
			if name == "forced at last" {
				g.do(c, rundir.Command{Op: rundir.OpCancel, By: "carol", Force: true})
			}
			res := g.end()
			tc.want.status, tc.want.code, tc.want.message = rundir.Cancelled, -1, "carol"
			tc.want.check(t, g, res)
			if res.By != "carol" || res.StopAfter <= 0 {
				t.Errorf("by %q, after %v", res.By, res.StopAfter)
			}
		})
	}
}

// TestStoppedForAReason: a cancel that carries a reason ends a run that has failed, and
// the run says why; one that comes a moment later does not change that.
func TestStoppedForAReason(t *testing.T) {
	t.Parallel()
	g := newRig(t, "ignore-term", "sleep")
	g.spec.KillGrace = rundir.Duration(300 * time.Millisecond)
	g.start()
	c := g.dial()
	g.until("it sleeps", func() bool { return strings.Contains(g.log(), "asleep") })
	g.do(c, rundir.Command{Op: rundir.OpCancel, By: "threadmill", Reason: agent.ReasonBudget, Why: "its budget is used up"})
	g.do(c, rundir.Command{Op: rundir.OpCancel, By: "carol"})
	res := g.end()
	if res.Status != rundir.Failed || res.Reason != agent.ReasonBudget || res.Message != "its budget is used up" || res.Ended != 1 {
		t.Errorf("result %+v", res)
	}
	entries := g.entries()
	last := entries[len(entries)-1]
	if last.Kind != agent.KindError || last.Failure == nil || last.Failure.Reason != agent.ReasonBudget {
		t.Errorf("the last entry is %+v", last)
	}
	if !strings.Contains(g.log(), "its budget is used up") {
		t.Error("the log does not say why")
	}
}

func TestCancelEndsWhatRanAway(t *testing.T) {
	t.Parallel()
	g := newRig(t, "leave-holding", "ignore-term", "sleep")
	g.spec.KillGrace = rundir.Duration(300 * time.Millisecond)
	g.start()
	c := g.dial()
	g.until("the child sleeps", func() bool { return strings.Contains(g.log(), "asleep") })
	g.do(c, rundir.Command{Op: rundir.OpCancel, By: "carol"})
	res := g.end()
	if res.Status != rundir.Cancelled || res.Ended < 1 {
		t.Errorf("result %+v", res)
	}
}

func TestSignalsToTheRunner(t *testing.T) {
	t.Parallel()
	g := newRig(t, "sleep").start()
	g.until("it sleeps", func() bool { return strings.Contains(g.log(), "asleep") })
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGPIPE, syscall.SIGINT, syscall.SIGTERM} {
		if err := g.cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
	}
	res := g.end()
	want{status: rundir.Cancelled, code: -1, signal: "SIGTERM", ended: 1, message: "SIGTERM"}.check(t, g, res)
}

func TestOutputLimit(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]string{"long": "100000000", "short": "20000"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newRig(t, "flood", size)
			g.spec.MaxOutputBytes = 10_000
			g.spec.KillGrace = rundir.Duration(time.Second)
			res := g.start().end()
			if res.Status != rundir.Failed || res.Reason != agent.ReasonOutputLimit {
				t.Errorf("result %+v", res)
			}
			if n := len(g.log()); n > 10_000 || n < 9_000 {
				t.Errorf("the log has %d bytes", n)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change  func(*rig)
		reason  agent.Reason
		message string
	}{
		"no such program": {
			func(g *rig) { g.spec.Argv = []string{"no-such-program"} }, agent.ReasonNotFound, `"no-such-program" in PATH`,
		},
		"no such file": {
			func(g *rig) { g.spec.Argv = []string{"/no/such/file"} }, agent.ReasonNotFound, "/no/such/file",
		},
		"not executable": {
			func(g *rig) { g.spec.Argv = []string{filepath.Join(g.dir, rundir.SpecFile)} }, agent.ReasonNotFound, "not executable",
		},
		"no such directory": {
			func(g *rig) { g.spec.Dir = "/no/such/dir" }, agent.ReasonNotFound, "working directory /no/such/dir",
		},
		"no such adapter": {
			func(g *rig) { g.spec.Adapter = "nope" }, agent.ReasonNotFound, `"nope"`,
		},
		"no command": {
			func(g *rig) { g.spec.Argv = nil }, agent.ReasonNotFound, "empty",
		},
		"a socket path that is too long": {
			func(g *rig) { g.spec.Socket = filepath.Join(g.dir, strings.Repeat("x", 100)) }, agent.ReasonAgentError, "socket",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newRig(t, "say", "hello")
			tc.change(g)
			res := g.start().end()
			if res.Status != rundir.Failed || res.Reason != tc.reason || !strings.Contains(res.Message, tc.message) {
				t.Errorf("result %+v", res)
			}
			g.untilEntry("an error", func(e agent.Entry) bool {
				return e.Kind == agent.KindError && e.Failure != nil && e.Failure.Reason == tc.reason
			})
		})
	}
}

func TestEnvironmentIsExactlyTheJobs(t *testing.T) {
	t.Parallel()
	g := newRig(t, "env")
	g.start().end()
	var wantLog string
	for _, e := range g.secrets.Env {
		wantLog += "[stdout] " + strings.ReplaceAll(e, secret, "[masked]") + "\n"
	}
	if got := sorted(g.log()); got != sorted(wantLog) {
		t.Errorf("environment %q, want %q", got, wantLog)
	}
}

func TestOnlyOneRunner(t *testing.T) {
	t.Parallel()
	g := newRig(t, "sleep").start()
	c := g.dial()
	again := func() error { return runner.Run(context.Background(), runner.Options{Dir: g.dir}) }
	if err := again(); !errors.Is(err, runner.ErrAlreadyRun) {
		t.Errorf("beside a live one: %v", err)
	}
	g.do(c, rundir.Command{Op: rundir.OpCancel})
	g.end()
	if err := again(); !errors.Is(err, runner.ErrAlreadyRun) {
		t.Errorf("after one: %v", err)
	}
	if err := os.Remove(filepath.Join(g.dir, rundir.InfoFile)); err != nil {
		t.Fatal(err)
	}
	if err := again(); !errors.Is(err, runner.ErrAlreadyRun) {
		t.Errorf("after one, by the result alone: %v", err)
	}
}

func TestInfoStandsBeforeTheAgent(t *testing.T) {
	t.Parallel()
	g := newRig(t, "sleep").start()
	g.until("it sleeps", func() bool { return strings.Contains(g.log(), "asleep") })
	info, ok, err := rundir.ReadInfo(g.dir)
	if err != nil || !ok || info.Pid != g.cmd.Process.Pid || !proc.Alive(info.Pid, info.StartTime) || info.Pane {
		t.Errorf("info %+v, %v, %v", info, ok, err)
	}
	st, err := os.Stat(g.spec.Socket)
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("socket: %v, %v", st, err)
	}
	g.do(g.dial(), rundir.Command{Op: rundir.OpCancel})
	g.end()
}

// TestRunnerKilled kills the runner: its agent must die with it, and what the agent had
// started is found by the mark that it carries.
func TestRunnerKilled(t *testing.T) {
	t.Parallel()
	g := newRig(t, "ignore-term", "sleep").start()
	g.until("it sleeps", func() bool { return strings.Contains(g.log(), "asleep") })
	if err := g.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := <-g.exited; err == nil {
		t.Error("it ended well")
	}
	g.until("the agent is gone", func() bool {
		n, err := proc.Find(proc.Target{ExecutionID: g.spec.ExecutionID})
		return err == nil && n == 0
	})
	if _, ok, _ := rundir.ReadResult(g.dir); ok {
		t.Error("there is a result")
	}
}

func TestRunnerKilledLeavesChildToTheSweep(t *testing.T) {
	t.Parallel()
	g := newRig(t, "leave-holding", "sleep").start()
	g.until("the child sleeps", func() bool { return strings.Contains(g.log(), "asleep") })
	if err := g.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := <-g.exited; err == nil {
		t.Error("it ended well")
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	swept, err := proc.Sweep(ctx, proc.Target{ExecutionID: g.spec.ExecutionID})
	if err != nil || swept.Ended < 1 || swept.Left != 0 {
		t.Errorf("swept %+v, %v", swept, err)
	}
}

func TestAdapterThatMissesTheEnd(t *testing.T) {
	t.Parallel()
	g := newRig(t, "sleep")
	g.spec.Adapter = "mute"
	g.start()
	g.until("it sleeps", func() bool { return strings.Contains(g.log(), "asleep") })
	g.do(g.dial(), rundir.Command{Op: rundir.OpCancel, By: "carol"})
	if res := g.end(); res.Status != rundir.Cancelled {
		t.Errorf("result %+v", res)
	}
}

func TestCancelWhileStarting(t *testing.T) {
	t.Parallel()
	g := newRig(t).talk("hello")
	g.spec.Options = map[string]any{"slow_start": true}
	g.start()
	c := g.dial()
	g.untilEntry("a pid", func(e agent.Entry) bool { return e.Status != nil && e.Status.Pid > 0 })
	if rep := g.do(c, message("m1", "early")); rep.How != rundir.HowQueued {
		t.Errorf("message: %+v", rep)
	}
	g.do(c, rundir.Command{Op: rundir.OpCancel, By: "carol"})
	res := g.end()
	if res.Status != rundir.Cancelled || !slices.Equal(res.Unsent, []string{"m1"}) {
		t.Errorf("result %+v", res)
	}
}

func TestRotationKeepsEveryLine(t *testing.T) {
	t.Parallel()
	g := newRig(t, "flood", "1000000")
	g.spec.RotateBytes = 64 << 10
	res := g.start().end()
	if res.LogLines != 10_000 {
		t.Errorf("%d lines, want 10000", res.LogLines)
	}
	if _, err := os.Stat(filepath.Join(g.dir, rundir.LogFile+".1")); err != nil {
		t.Error(err)
	}
}

func TestCommandTakesNoMessages(t *testing.T) {
	t.Parallel()
	g := newRig(t, "sleep").start()
	c := g.dial()
	for _, cmd := range []rundir.Command{message("m1", "hello"), {Op: rundir.OpInterrupt}} {
		if rep := g.do(c, cmd); rep.Code != rundir.CodeUnsupported || rep.Error == "" {
			t.Errorf("%s: %+v", cmd.Op, rep)
		}
	}
	for i, cmd := range []rundir.Command{
		{Op: "dance"},
		{Op: rundir.OpResize, Cols: 0, Rows: 10},
		{Op: rundir.OpDecide, Decision: &agent.Decision{AskID: "nothing"}},
		{Op: rundir.OpDecide},
		{Op: rundir.OpMessage},
	} {
		if rep := g.do(c, cmd); rep.OK || rep.Code != rundir.CodeInvalid {
			t.Errorf("%s: %+v", cmd.Op, rep)
		}
		if rep := g.do(c, rundir.Command{ID: fmt.Sprint(i), Op: rundir.OpPing}); !rep.OK {
			t.Errorf("ping: %+v", rep)
		}
	}
	g.do(c, rundir.Command{Op: rundir.OpCancel})
	g.end()
}
