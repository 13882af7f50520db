package runner_test

import (
	"testing"

	"github.com/threadmill/threadmill/engine/rundir"
)

func TestCommandSucceeds(t *testing.T) {
	t.Parallel()
	g := newRig(t, "say", "hello", secret).start()
	res := g.end()
	if res.Status != rundir.Succeeded || res.ExitCode == nil || *res.ExitCode != 0 {
		t.Errorf("result %+v", res)
	}
	if got, want := g.log(), "[stdout] hello [masked]\n"; got != want {
		t.Errorf("log %q, want %q", got, want)
	}
}

func TestTalk(t *testing.T) {
	t.Parallel()
	g := newRig(t).talk("hello").start()
	c := g.dial()
	g.untilText("you said: hello")
	g.untilActivity("idle", 0)
	if rep := g.do(c, message("m1", "again")); rep.How != rundir.HowStarted {
		t.Errorf("reply %+v", rep)
	}
	g.untilText("you said: again")
	g.until("ended", func() bool { return g.do(c, rundir.Command{Op: rundir.OpEnd}).OK })
	res := g.end()
	if res.Status != rundir.Succeeded || res.SessionRef != "session-1" || res.Ended != 0 {
		t.Errorf("result %+v\n%s\n%s", res, g.log(), g.dump())
	}
}
