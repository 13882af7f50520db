package runner_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/rundir"
)

// working starts a talk whose agent is in the middle of a turn.
func working(t *testing.T) (*rig, *rundir.Client) {
	t.Helper()
	g := newRig(t).talk("one;work;two").start()
	c := g.dial()
	g.untilText("you said: one")
	return g, c
}

// finishTalk ends an idle talk.
func finishTalk(g *rig, c *rundir.Client) rundir.Result {
	g.t.Helper()
	g.until("it can be ended", func() bool {
		rep := g.do(c, rundir.Command{Op: rundir.OpEnd})
		if !rep.OK && rep.Code != rundir.CodeBusy {
			g.t.Fatalf("end: %+v", rep)
		}
		return rep.OK
	})
	return g.end()
}

// said returns what was said, by whom and how, in order.
func said(entries []agent.Entry) []string {
	var lines []string
	for _, e := range entries {
		switch e.Kind {
		case agent.KindAssistant:
			lines = append(lines, e.Content)
		case agent.KindUser:
			how, _ := e.Meta["how"].(string)
			from, _ := e.Meta["from"].(string)
			lines = append(lines, strings.TrimSpace("> "+e.Content+" ("+e.ID+" "+from+" "+how)+")")
		}
	}
	return lines
}

func checkSaid(g *rig, want ...string) {
	g.t.Helper()
	if diff := cmp.Diff(want, said(g.entries())); diff != "" {
		g.t.Errorf("said (-want +got):\n%s", diff)
	}
}

func TestTalk(t *testing.T) {
	t.Parallel()
	g := newRig(t).talk("hello").start()
	c := g.dial()
	g.untilActivity(agent.Idle, 0)
	seq := g.lastSeq()
	if rep := g.do(c, message("m1", "again")); rep.How != rundir.HowStarted {
		t.Errorf("reply %+v", rep)
	}
	g.untilActivity(agent.Working, seq)
	g.untilActivity(agent.Idle, seq)
	res := finishTalk(g, c)
	want{status: rundir.Succeeded}.check(t, g, res)
	if res.SessionRef != "session-1" {
		t.Errorf("session %q", res.SessionRef)
	}
	checkSaid(g, "> hello (prompt-1 alice)", "you said: hello", "> again (m1 bob started)", "you said: again")
	wantLog := "[system] message from alice: hello\n[stdout] you said: hello\n" +
		"[system] message from bob: again\n[stdout] you said: again\n"
	if diff := cmp.Diff(wantLog, g.log()); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

func TestActivityIsWrittenOnceForEachChange(t *testing.T) {
	t.Parallel()
	g := newRig(t).talk("hello").start()
	c := g.dial()
	g.untilActivity(agent.Idle, 0)
	finishTalk(g, c)
	var got []agent.Activity
	for _, e := range g.entries() {
		if e.Status != nil && e.Status.Activity != "" {
			got = append(got, e.Status.Activity)
		}
	}
	if !slices.Equal(got, []agent.Activity{agent.Working, agent.Idle}) {
		t.Errorf("activities %v", got)
	}
}

func TestOneShotEndsWithItsTurn(t *testing.T) {
	t.Parallel()
	g := newRig(t).talk("hello;usage")
	g.spec.IdleTimeout = 0
	res := g.start().end()
	want{status: rundir.Succeeded}.check(t, g, res)
	if diff := cmp.Diff(agent.Usage{InputTokens: 7, OutputTokens: 9, CostUSD: 0.5}, res.Usage); diff != "" {
		t.Errorf("usage: %s", diff)
	}
}

func TestIdleTimeout(t *testing.T) {
	t.Parallel()
	g := newRig(t).talk("hello")
	g.spec.IdleTimeout = rundir.Duration(200 * time.Millisecond)
	res := g.start().end()
	want{status: rundir.Succeeded}.check(t, g, res)
}

func TestIdleEndOfAnAgentThatStays(t *testing.T) {
	t.Parallel()
	g := newRig(t).talk("hello")
	g.spec.Options = map[string]any{"deaf_close": true}
	g.spec.KillGrace = rundir.Duration(200 * time.Millisecond)
	g.start()
	c := g.dial()
	g.untilText("you said: hello")
	res := finishTalk(g, c)
	want{status: rundir.Succeeded, code: -1, signal: "SIGTERM", ended: 1}.check(t, g, res)
}

func TestQueue(t *testing.T) {
	t.Parallel()
	g, c := working(t)
	for _, id := range []string{"m1", "m2"} {
		if rep := g.do(c, message(id, "next "+id)); rep.How != rundir.HowQueued {
			t.Errorf("%s: %+v", id, rep)
		}
	}
	if rep := g.do(c, rundir.Command{Op: rundir.OpEnd}); rep.Code != rundir.CodeBusy {
		t.Errorf("end: %+v", rep)
	}
	steer := message("m3", "go on")
	steer.OnBusy = "steer"
	if rep := g.do(c, steer); rep.How != rundir.HowSteered {
		t.Errorf("steer: %+v", rep)
	}
	g.untilText("next m2")
	finishTalk(g, c)
	checkSaid(
		g, "> one;work;two (prompt-1 alice)", "you said: one", "> go on (m3 bob steered)", "got message go on m3",
		"you said: two", "> next m1 (m1 bob started)", "you said: next m1", "> next m2 (m2 bob started)", "you said: next m2",
	)
}

func TestReject(t *testing.T) {
	t.Parallel()
	g := newRig(t).talk("one;work;two")
	g.spec.OnBusy = "reject"
	g.start()
	c := g.dial()
	g.untilText("you said: one")
	if rep := g.do(c, message("m1", "now")); rep.Code != rundir.CodeBusy {
		t.Errorf("reply %+v", rep)
	}
	g.do(c, rundir.Command{Op: rundir.OpInterrupt})
	g.untilText("got interrupt")
	finishTalk(g, c)
	checkSaid(g, "> one;work;two (prompt-1 alice)", "you said: one", "got interrupt")
}

func TestInterrupt(t *testing.T) {
	t.Parallel()
	g, c := working(t)
	if rep := g.do(c, rundir.Command{Op: rundir.OpInterrupt}); !rep.OK {
		t.Errorf("reply %+v", rep)
	}
	g.untilText("got interrupt")
	g.until("nothing to interrupt", func() bool {
		return g.do(c, rundir.Command{Op: rundir.OpInterrupt}).Code == rundir.CodeInvalid
	})
	if rep := g.do(c, message("m1", "still there?")); rep.How != rundir.HowStarted {
		t.Errorf("reply %+v", rep)
	}
	g.untilText("still there?")
	finishTalk(g, c)
}

func TestDuplicateCommands(t *testing.T) {
	t.Parallel()
	g, c := working(t)
	other := g.dial()
	for _, client := range []*rundir.Client{c, other, c} {
		if rep := g.do(client, message("m1", "just once")); rep.How != rundir.HowQueued || rep.ID != "m1" {
			t.Errorf("reply %+v", rep)
		}
	}
	g.do(c, rundir.Command{Op: rundir.OpInterrupt})
	g.untilText("just once")
	if rep := g.do(other, message("m1", "just once")); rep.How != rundir.HowQueued {
		t.Errorf("reply %+v", rep)
	}
	finishTalk(g, c)
	checkSaid(
		g, "> one;work;two (prompt-1 alice)", "you said: one", "got interrupt",
		"> just once (m1 bob started)", "you said: just once",
	)
}

func TestMessageThatTheAgentRefuses(t *testing.T) {
	t.Parallel()
	g := newRig(t).talk("hello").start()
	c := g.dial()
	g.untilText("you said: hello")
	g.untilActivity(agent.Idle, 0)
	g.until("it is idle", func() bool { return g.do(c, message(rundir.NewID(), "hm")).How == rundir.HowStarted })
	g.untilText("hm")
	g.until("it is idle", func() bool { return g.do(c, message(rundir.NewID(), "refuse me")).Code == rundir.CodeFailed })
	g.untilEntry("an error", func(e agent.Entry) bool { return e.Kind == agent.KindError && e.Meta["messageId"] != "" })
	want{status: rundir.Succeeded}.check(t, g, finishTalk(g, c))
}

func TestMessagesThatWereNeverSent(t *testing.T) {
	t.Parallel()
	g, c := working(t)
	g.do(c, message("m1", "later"))
	g.do(c, message("m2", "much later"))
	g.do(c, rundir.Command{Op: rundir.OpCancel, By: "carol"})
	if rep := g.do(c, message("m3", "too late")); rep.Code != rundir.CodeEnding {
		t.Errorf("reply %+v", rep)
	}
	res := g.end()
	if res.Status != rundir.Cancelled || !slices.Equal(res.Unsent, []string{"m1", "m2"}) {
		t.Errorf("result %+v", res)
	}
	for _, e := range g.entries() {
		if e.Kind == agent.KindUser && e.ID != "prompt-1" {
			t.Errorf("an entry about %s", e.ID)
		}
	}
}

func TestCrash(t *testing.T) {
	t.Parallel()
	g := newRig(t).talk("one;crash")
	res := g.start().end()
	want{status: rundir.Failed, reason: agent.ReasonExitCode, code: 3}.check(t, g, res)
}

// asking starts a talk whose agent waits for a permission.
func asking(t *testing.T, change func(*rig)) (*rig, *rundir.Client) {
	t.Helper()
	g := newRig(t).talk("ask rm -rf build;done")
	change(g)
	g.start()
	c := g.dial()
	g.untilActivity(agent.Approval, 0)
	return g, c
}

// askStates returns the states that the agent's question went through.
func askStates(g *rig) (states []agent.AskState, last *agent.Ask) {
	for _, e := range g.entries() {
		if e.Kind == agent.KindApproval {
			states, last = append(states, e.Ask.State), e.Ask
		}
	}
	return states, last
}

func TestApproval(t *testing.T) {
	t.Parallel()
	g, c := asking(t, func(*rig) {})
	if rep := g.do(c, message("m1", "hurry")); rep.How != rundir.HowQueued {
		t.Errorf("a message meanwhile: %+v", rep)
	}
	d := rundir.Command{ID: "d1", Op: rundir.OpDecide, By: "dave", Decision: &agent.Decision{AskID: "ask-1", Allow: true}}
	if rep := g.do(c, d); !rep.OK {
		t.Errorf("reply %+v", rep)
	}
	again := d
	again.ID = "d2"
	if rep := g.do(c, again); rep.Code != rundir.CodeInvalid {
		t.Errorf("a second decision: %+v", rep)
	}
	g.untilText("got decide allow=true timedOut=false by=dave ask-1")
	g.untilText("hurry")
	finishTalk(g, c)
	states, last := askStates(g)
	if !slices.Equal(states, []agent.AskState{agent.AskOpen, agent.AskDecided}) || last.Deadline != nil ||
		last.Decision == nil || last.Decision.By != "dave" {
		t.Errorf("states %v, last %+v", states, last)
	}
}

func TestApprovalTimeout(t *testing.T) {
	t.Parallel()
	g, c := asking(t, func(g *rig) { g.spec.ApprovalTimeout = rundir.Duration(200 * time.Millisecond) })
	g.untilText("got decide allow=false timedOut=true")
	finishTalk(g, c)
	states, last := askStates(g)
	if !slices.Equal(states, []agent.AskState{agent.AskOpen, agent.AskTimedOut}) || last.Deadline == nil {
		t.Errorf("states %v, last %+v", states, last)
	}
}

func TestApprovalIsAskedAgain(t *testing.T) {
	t.Parallel()
	g, c := asking(t, func(g *rig) {
		g.spec.ApprovalTimeout, g.spec.OnTimeout = rundir.Duration(50*time.Millisecond), rundir.TimeoutRemind
	})
	again := g.untilEntry("a second reminder", func(e agent.Entry) bool { return e.Ask != nil && e.Ask.Reminders == 2 })
	if rep := g.do(c, rundir.Command{ID: "d1", Op: rundir.OpDecide, Decision: &agent.Decision{AskID: "ask-1", Allow: true}}); !rep.OK {
		t.Errorf("reply %+v", rep)
	}
	g.untilText("got decide allow=true timedOut=false")
	finishTalk(g, c)
	states, last := askStates(g)
	if n := len(states) - 1; slices.Index(states, agent.AskDecided) != n || last.Reminders < 2 || last.Deadline.Before(*again.Ask.Deadline) {
		t.Errorf("states %v, last %+v", states, last)
	}
	if !strings.Contains(g.log(), "[system] still waits for permission") {
		t.Errorf("the log is %s", g.log())
	}
}

func TestApprovalMayWaitForEver(t *testing.T) {
	t.Parallel()
	g, c := asking(t, func(g *rig) {
		g.spec.ApprovalTimeout, g.spec.OnTimeout = rundir.Duration(time.Nanosecond), rundir.TimeoutWait
	})
	g.do(c, rundir.Command{ID: "d1", Op: rundir.OpDecide, Decision: &agent.Decision{AskID: "ask-1", Allow: true}})
	finishTalk(g, c)
	if states, last := askStates(g); !slices.Equal(states, []agent.AskState{agent.AskOpen, agent.AskDecided}) || last.Deadline != nil {
		t.Errorf("states %v, last %+v", states, last)
	}
}

func TestApprovalIsWithdrawnAtTheEnd(t *testing.T) {
	t.Parallel()
	g, c := asking(t, func(*rig) {})
	g.do(c, rundir.Command{Op: rundir.OpCancel})
	g.end()
	if states, _ := askStates(g); !slices.Equal(states, []agent.AskState{agent.AskOpen, agent.AskWithdrawn}) {
		t.Errorf("states %v", states)
	}
}

// TestStreamedText checks text that comes in pieces: masked as one text, printed once.
func TestStreamedText(t *testing.T) {
	t.Parallel()
	g := newRig(t).talk(`pieces it is s3cr|et-V4|lue\nand |more;final it is ` + secret + `\nand more;` +
		`pieces cut s3cret;other;tool make test`)
	g.start()
	c := g.dial()
	g.untilEntry("the tool's end", func(e agent.Entry) bool { return e.Tool != nil && e.Tool.Status == agent.ToolSuccess })
	finishTalk(g, c)
	var streamed, final string
	for _, e := range g.entries() {
		if e.Kind == agent.KindAssistant && e.ID == "text-1" {
			if e.Append {
				streamed += e.Content
			} else {
				final = e.Content
			}
		}
	}
	if want := "it is [masked]\nand more"; final != want || streamed != want {
		t.Errorf("streamed %q, final %q", streamed, final)
	}
	_, log, _ := strings.Cut(g.log(), "make test\n") // the prompt
	want := "[stdout] it is [masked]\n[stdout] and more\n[stdout] you said: other\n" +
		"[system] shell: make test → running\n[system] shell: make test → success\n[stdout] cut s3cret\n"
	if diff := cmp.Diff(want, log); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
	g.checkNoSecret()
}

// TestFailureIsSaidOnce: an agent that has said what went wrong is not repeated.
func TestFailureIsSaidOnce(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"fail", "crash"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			g := newRig(t).talk(step).start()
			if res := g.end(); res.Status != rundir.Failed || res.Message != "exited with code 3:" {
				t.Errorf("result %+v", res)
			}
			if n := strings.Count(g.log(), "exited with code 3:"); n != 1 {
				t.Errorf("it is said %d times:\n%s", n, g.log())
			}
		})
	}
}
