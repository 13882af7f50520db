package adaptertest

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/threadmill/threadmill/engine/agent"
)

// lifeScenarios are about beginning and ending.
func lifeScenarios() []scenario {
	long := func(s Subject) bool { return s.Long.given() }
	return []scenario{
		{name: "check: the program is there", run: checkFinds},
		{name: "check: the program is missing", run: checkMissing},
		{name: "check: the program cannot be executed", run: checkForbidden},
		{name: "start: the program is missing", run: startMissing},
		{name: "start: nothing to run", run: startNothing},
		{name: "start: the context is cancelled", run: startCancelled},
		{name: "start: its context ends later", run: startOutlived},
		{name: "answer", given: func(s Subject) bool { return s.Answer.given() }, run: answers},
		{name: "stream", given: func(s Subject) bool { return s.Stream.given() }, run: streamed},
		{name: "thinking", given: func(s Subject) bool { return s.Think.given() }, run: thinks},
		{name: "usage", given: func(s Subject) bool { return s.Usage.given() }, run: spends},
		{name: "tool: success", given: func(s Subject) bool { return s.Tool.given() }, run: toolSucceeds},
		{name: "tool: failure", given: func(s Subject) bool { return s.BadTool.given() }, run: toolFails},
		{name: "close: often, at once, after the end", run: closesOften},
		{name: "close: finishes what was said", run: closePolitely},
		{name: "killed in the middle", given: long, run: killed},
		{name: "terminated in the middle", given: long, run: terminated},
	}
}

func checkFinds(t *testing.T, s Subject) {
	got := s.Adapter.Check(t.Context(), jobFor(t, s, s.Answer))
	if !got.OK || got.Problem != "" || !filepath.IsAbs(got.Path) {
		t.Errorf("Check = %+v, want OK with the program's path", got)
	}
}

func checkMissing(t *testing.T, s Subject) {
	job := jobFor(t, s, s.Answer)
	job.Argv = append([]string{"no-such-program-anywhere"}, job.Argv[1:]...)
	got := s.Adapter.Check(t.Context(), job)
	if got.OK || !strings.Contains(got.Problem, job.Argv[0]) || got.Hint == "" {
		t.Errorf("Check = %+v, want a problem that names the program and a hint", got)
	}
}

func checkForbidden(t *testing.T, s Subject) {
	job := jobFor(t, s, s.Answer)
	job.Argv = append([]string{filepath.Join(t.TempDir(), "plain")}, job.Argv[1:]...)
	if err := os.WriteFile(job.Argv[0], []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := s.Adapter.Check(t.Context(), job)
	if got.OK || !strings.Contains(got.Problem, job.Argv[0]) || got.Hint == "" {
		t.Errorf("Check = %+v, want a problem that names the file and a hint", got)
	}
}

func startMissing(t *testing.T, s Subject) {
	job := jobFor(t, s, s.Answer)
	job.Argv = append([]string{"no-such-program-anywhere"}, job.Argv[1:]...)
	_, err := s.Adapter.Start(t.Context(), job, NewRuntime(t))
	if !errors.Is(err, exec.ErrNotFound) && !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Start = %v, want the runtime's error that the program was not found", err)
	}
}

func startNothing(t *testing.T, s Subject) {
	job := jobFor(t, s, s.Answer)
	job.Argv = nil
	if _, err := s.Adapter.Start(t.Context(), job, NewRuntime(t)); err == nil {
		t.Error("Start without argv succeeds")
	}
}

// startCancelled wants an error and no process.
func startCancelled(t *testing.T, s Subject) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	rt := NewRuntime(t)
	if _, err := s.Adapter.Start(ctx, jobFor(t, s, s.Answer), rt); !errors.Is(err, context.Canceled) {
		t.Errorf("Start = %v, want that its context was cancelled", err)
	}
	rt.stop() // waits for what it should not have started
}

// startOutlived checks that the context of the start does not bound the session.
func startOutlived(t *testing.T, s Subject) {
	ctx, cancel := context.WithCancel(t.Context())
	rt := NewRuntime(t)
	session, err := s.Adapter.Start(ctx, jobFor(t, s, s.Answer), rt)
	cancel()
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	d := adopt(t, s, rt, session)
	d.turn(1)
	d.succeeds()
}

func answers(t *testing.T, s Subject) {
	d := start(t, s, s.Answer)
	d.turn(1)
	d.sees(s.Answer.Want)
	d.succeeds()
	d.knows("its process", func(e agent.Entry) bool { return e.Status != nil && e.Status.Pid != 0 })
	if in, out := d.rt.Wired(); s.Adapter.Traits().Messages && (in == 0 || out == 0) {
		t.Errorf("%d lines to the agent and %d from it were noted for diagnosis", in, out)
	}
	if s.Adapter.Traits().Resume {
		d.knows("its session", func(e agent.Entry) bool { return e.Status != nil && e.Status.SessionRef != "" })
	}
}

// streamed wants parts; that they make up the whole is a rule for every entry.
func streamed(t *testing.T, s Subject) {
	d := start(t, s, s.Stream)
	d.turn(1)
	d.sees(s.Stream.Want)
	d.knows("parts of a text", func(e agent.Entry) bool { return e.Append })
	d.succeeds()
}

func thinks(t *testing.T, s Subject) {
	d := start(t, s, s.Think)
	d.turn(1)
	d.sees(s.Think.Want)
	d.knows("thoughts", func(e agent.Entry) bool { return e.Kind == agent.KindThinking })
	d.succeeds()
}

func spends(t *testing.T, s Subject) {
	d := start(t, s, s.Usage)
	d.turn(1)
	d.knows("usage", func(e agent.Entry) bool {
		return e.Usage != nil && (e.Usage.CostUSD > 0 || e.Usage.OutputTokens > 0)
	})
	d.succeeds()
}

func toolSucceeds(t *testing.T, s Subject) {
	d := start(t, s, s.Tool)
	d.turn(1)
	d.sees(s.Tool.Want)
	d.knows("a tool that runs", func(e agent.Entry) bool { return e.Tool != nil && order(e.Tool.Status) < final })
	d.knows("a tool that succeeded", func(e agent.Entry) bool { return e.Tool != nil && e.Tool.Status == agent.ToolSuccess })
	d.succeeds()
}

// toolFails leaves open how the run ends: for a command the tool is the run.
func toolFails(t *testing.T, s Subject) {
	d := start(t, s, s.BadTool)
	d.turn(1)
	d.sees(s.BadTool.Want)
	d.knows("a tool that failed", func(e agent.Entry) bool { return e.Tool != nil && e.Tool.Status == agent.ToolFailed })
	d.finish()
}

func closesOften(t *testing.T, s Subject) {
	d := start(t, s, s.Answer)
	d.turn(1)
	errs := make(chan error)
	for range 4 {
		go func() { errs <- d.try(d.session.Close) }()
	}
	for range 4 {
		if err := <-errs; err != nil {
			t.Errorf("close: %v", err)
		}
	}
	d.succeeds()
	if err := d.try(d.session.Close); err != nil {
		t.Errorf("close after the end: %v", err)
	}
	for what, call := range calls(d.session) {
		if err := d.try(call); err == nil {
			t.Errorf("%s after the end succeeds", what)
		}
	}
}

// calls are what a session can be asked to do.
func calls(s agent.Session) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"send": func(ctx context.Context) error {
			return s.Send(ctx, agent.Message{ID: "m", Text: "hello"})
		},
		"interrupt": s.Interrupt,
		"decide": func(ctx context.Context) error {
			return s.Decide(ctx, agent.Decision{AskID: "nothing asked this", Allow: true})
		},
	}
}

// closePolitely closes a session that has just begun: what it was told is done.
func closePolitely(t *testing.T, s Subject) {
	d := start(t, s, s.Answer)
	d.succeeds()
	d.sees(s.Answer.Want)
}

func killed(t *testing.T, s Subject) {
	d := start(t, s, s.Long)
	d.sees(s.Long.Want)
	d.rt.Signal(syscall.SIGKILL)
	out := d.outcome()
	if out.Signal != "SIGKILL" || out.ExitCode != nil || out.Message == "" ||
		out.Reason != agent.ReasonAgentError && out.Reason != agent.ReasonExitCode {
		t.Errorf("a killed agent ended with %s, want an error that names SIGKILL", show(out))
	}
}

// terminated wants an end that is not success: nobody asked the agent to stop.
func terminated(t *testing.T, s Subject) {
	d := start(t, s, s.Long)
	d.sees(s.Long.Want)
	d.rt.Signal(syscall.SIGTERM)
	if out := d.outcome(); out.Reason == "" || out.Message == "" {
		t.Errorf("a terminated agent ended with %s, want an error", show(out))
	}
}
