package adaptertest

import (
	"context"
	"testing"

	"github.com/threadmill/threadmill/engine/agent"
)

// askScenarios are about what an agent waits for.
func askScenarios() []scenario {
	approvals := func(tr agent.Traits) bool { return tr.Approvals }
	questions := func(tr agent.Traits) bool { return tr.Questions }
	interrupts := func(tr agent.Traits) bool { return tr.Approvals && tr.Interrupt }
	permission := func(s Subject) bool { return s.Approval.Prompt != "" }
	changed := func(s Subject) bool { return permission(s) && len(s.Approval.Modified) > 0 }
	return []scenario{
		{name: "approval: allowed", trait: approvals, given: permission, run: allowed},
		{name: "approval: denied with a message", trait: approvals, given: permission, run: denied},
		{name: "approval: denied, and the turn ends", trait: interrupts, given: permission, run: deniedAndStopped},
		{name: "approval: another input", trait: approvals, given: changed, run: allowedOtherwise},
		{name: "approval: nobody decided", trait: approvals, given: permission, run: undecided},
		{name: "approval: decided twice", trait: approvals, given: permission, run: decidedTwice},
		{name: "approval: unknown", trait: approvals, given: permission, run: decidesUnknown},
		{name: "approval: open when interrupted", trait: interrupts, given: permission, run: interruptedAsk},
		{name: "approval: open when closed", trait: approvals, given: permission, run: closedAsk},
		{name: "question", trait: questions, given: func(s Subject) bool { return s.Question.Prompt != "" }, run: answered},
	}
}

// asks starts the turn that asks for permission and waits for it.
func asks(t *testing.T, s Subject) (*drive, agent.Entry) {
	t.Helper()
	d := start(t, s, Case{Prompt: s.Approval.Prompt})
	e := d.asked(agent.KindApproval, 1)
	d.seesNot(s.Approval.Allowed)
	return d, e
}

func allowed(t *testing.T, s Subject) {
	d, e := asks(t, s)
	d.decide(agent.Decision{AskID: e.ID, Allow: true, By: "suite"})
	d.turn(1)
	d.sees(s.Approval.Allowed)
	d.settled(e.ID)
	d.succeeds()
}

// settled checks that the adapter does not call an ask that was decided anything else.
// Telling that it was decided is the runner's, and the adapter's where it likes.
func (d *drive) settled(id string) {
	d.t.Helper()
	if got := d.state(id); got != agent.AskOpen && got != agent.AskDecided {
		d.t.Errorf("ask %s was decided and is now %s", id, got)
	}
}

func denied(t *testing.T, s Subject) {
	d, e := asks(t, s)
	d.decide(agent.Decision{AskID: e.ID, Message: "not today", By: "suite"})
	d.turn(1)
	d.sees(s.Approval.Denied)
	d.seesNot(s.Approval.Allowed)
	d.settled(e.ID)
	d.succeeds()
}

func deniedAndStopped(t *testing.T, s Subject) {
	d, e := asks(t, s)
	d.decide(agent.Decision{AskID: e.ID, Message: "not today", Interrupt: true, By: "suite"})
	d.turn(1)
	d.seesNot(s.Approval.Allowed)
	d.succeeds()
}

func allowedOtherwise(t *testing.T, s Subject) {
	d, e := asks(t, s)
	d.decide(agent.Decision{AskID: e.ID, Allow: true, ModifiedInput: s.Approval.Modified, By: "suite"})
	d.turn(1)
	d.sees(s.Approval.Changed)
	d.seesNot(s.Approval.Allowed)
	d.succeeds()
}

func undecided(t *testing.T, s Subject) {
	d, e := asks(t, s)
	d.decide(agent.Decision{AskID: e.ID, Message: "nobody decided in time", TimedOut: true})
	d.turn(1)
	d.seesNot(s.Approval.Allowed)
	d.succeeds()
}

func decidedTwice(t *testing.T, s Subject) {
	d, e := asks(t, s)
	d.decide(agent.Decision{AskID: e.ID, Message: "not today", By: "suite"})
	err := d.try(func(ctx context.Context) error {
		return d.session.Decide(ctx, agent.Decision{AskID: e.ID, Allow: true})
	})
	if err == nil {
		t.Error("a second decision is taken")
	}
	d.turn(1)
	d.seesNot(s.Approval.Allowed)
	d.succeeds()
}

func decidesUnknown(t *testing.T, s Subject) {
	d, e := asks(t, s)
	err := d.try(func(ctx context.Context) error {
		return d.session.Decide(ctx, agent.Decision{AskID: "nothing asked this", Allow: true})
	})
	if err == nil {
		t.Error("a decision of an unknown ask is taken")
	}
	d.seesNot(s.Approval.Allowed)
	d.decide(agent.Decision{AskID: e.ID, Allow: true})
	d.turn(1)
	d.sees(s.Approval.Allowed)
	d.succeeds()
}

func interruptedAsk(t *testing.T, s Subject) {
	d, e := asks(t, s)
	d.interrupt()
	d.turn(1)
	if got := d.state(e.ID); got != agent.AskWithdrawn {
		t.Errorf("the ask of an interrupted turn is %s, want %s", got, agent.AskWithdrawn)
	}
	d.seesNot(s.Approval.Allowed)
	d.succeeds()
}

// closedAsk checks that an agent which nobody will answer does not wait for ever.
func closedAsk(t *testing.T, s Subject) {
	d, _ := asks(t, s)
	d.must("close", d.session.Close)
	d.outcome()
	d.seesNot(s.Approval.Allowed)
}

func answered(t *testing.T, s Subject) {
	d := start(t, s, Case{Prompt: s.Question.Prompt})
	e := d.asked(agent.KindQuestion, 1)
	d.decide(agent.Decision{
		AskID: e.ID, Allow: true, By: "suite",
		Answers: map[string]string{e.Ask.Questions[0].Text: s.Question.Answer},
	})
	d.turn(1)
	d.sees(s.Question.Want)
	d.succeeds()
}
