package adaptertest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/threadmill/threadmill/engine/agent"
)

// followUps is how many turns the suite has in a row.
const followUps = 5

// talkScenarios are about messages and interrupts.
func talkScenarios() []scenario {
	messages := func(tr agent.Traits) bool { return tr.Messages }
	steering := func(tr agent.Traits) bool { return tr.Steering }
	interrupt := func(tr agent.Traits) bool { return tr.Interrupt }
	followUp := func(s Subject) bool { return s.FollowUp.Prompt != "" }
	both := func(s Subject) bool { return followUp(s) && s.Long.given() }
	return []scenario{
		{name: "follow-up", trait: messages, given: followUp, run: followsUp},
		{name: "follow-ups in a row", trait: messages, given: followUp, run: followsUpOften},
		{name: "start without a prompt", trait: messages, given: followUp, run: waits},
		{name: "a message after close", trait: messages, given: followUp, run: sendAfterClose},
		{name: "a call whose context is cancelled", trait: messages, given: followUp, run: callCancelled},
		{name: "steering", trait: steering, given: both, run: steers},
		{name: "interrupt", trait: interrupt, given: both, run: interrupts},
		{name: "interrupt twice at once", trait: interrupt, given: both, run: interruptsTwice},
		{name: "interrupt when idle", trait: interrupt, given: followUp, run: interruptsIdle},
	}
}

func followsUp(t *testing.T, s Subject) {
	d := start(t, s, s.Answer)
	d.turn(1)
	d.send("m2", s.FollowUp.Prompt)
	d.turn(2)
	d.sees(s.FollowUp.Want)
	d.succeeds()
}

func followsUpOften(t *testing.T, s Subject) {
	d := start(t, s, s.Answer)
	for n := range followUps {
		d.turn(n + 1)
		d.send(fmt.Sprintf("m%d", n+2), s.FollowUp.Prompt)
	}
	d.turn(followUps + 1)
	d.succeeds()
}

// waits starts a session that has nothing to do yet.
func waits(t *testing.T, s Subject) {
	d := start(t, s, Case{Argv: s.Answer.Argv})
	d.until("it is idle", func(entries []agent.Entry) bool {
		for _, e := range entries {
			if e.Status != nil && e.Status.Activity == agent.Idle {
				return true
			}
		}
		return false
	})
	d.send("m1", s.FollowUp.Prompt)
	d.turn(1)
	d.sees(s.FollowUp.Want)
	d.succeeds()
}

func sendAfterClose(t *testing.T, s Subject) {
	d := start(t, s, s.Answer)
	d.turn(1)
	d.must("close", d.session.Close)
	err := d.try(func(ctx context.Context) error {
		return d.session.Send(ctx, agent.Message{ID: "late", Text: s.FollowUp.Prompt})
	})
	if err == nil {
		t.Error("a message after close is taken")
	}
	d.succeeds()
}

// callCancelled wants the error of the context, and a session that is none the worse.
func callCancelled(t *testing.T, s Subject) {
	d := start(t, s, s.Answer)
	d.turn(1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := d.session.Send(ctx, agent.Message{ID: "m2", Text: s.FollowUp.Prompt})
	if err == nil || !errors.Is(err, context.Canceled) {
		t.Errorf("Send = %v, want that its context was cancelled", err)
	}
	d.succeeds()
}

func steers(t *testing.T, s Subject) {
	d := start(t, s, s.Long)
	d.sees(s.Long.Want)
	d.send("m2", s.FollowUp.Prompt)
	d.sees(s.FollowUp.Want)
	d.rt.stop()
}

// interrupts ends a turn and has the next one.
func interrupts(t *testing.T, s Subject) {
	d := start(t, s, s.Long)
	d.sees(s.Long.Want)
	d.interrupt()
	d.turn(1)
	d.send("m2", s.FollowUp.Prompt)
	d.turn(2)
	d.sees(s.FollowUp.Want)
	d.succeeds()
}

// interruptsTwice leaves open whether the second one finds a turn to end.
func interruptsTwice(t *testing.T, s Subject) {
	d := start(t, s, s.Long)
	d.sees(s.Long.Want)
	second := make(chan error)
	go func() { second <- d.try(d.session.Interrupt) }()
	d.interrupt()
	if err := <-second; err != nil {
		t.Logf("the second interrupt: %v", err)
	}
	d.turn(1)
	d.send("m2", s.FollowUp.Prompt)
	d.turn(2)
	d.succeeds()
}

// interruptsIdle leaves open whether there is an error; the session is none the worse.
func interruptsIdle(t *testing.T, s Subject) {
	d := start(t, s, s.Answer)
	d.turn(1)
	if err := d.try(d.session.Interrupt); err != nil {
		t.Logf("interrupt when idle: %v", err)
	}
	d.send("m2", s.FollowUp.Prompt)
	d.turn(2)
	d.sees(s.FollowUp.Want)
	d.succeeds()
}
