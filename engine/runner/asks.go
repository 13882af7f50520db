package runner

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/rundir"
)

// decideWait bounds how long an agent may take to take a decision.
const decideWait = 30 * time.Second

// asks is what the agent waits for people to decide.
type asks struct {
	open    map[string]*ask
	settled map[string]bool // what the runner has closed itself, so that the adapter need not
}

type ask struct {
	entry    agent.Entry
	deadline *time.Timer
	deciding *agent.Decision // on its way to the agent
}

// activity is what open asks make of the run's activity; empty without any.
func (a *asks) activity() agent.Activity {
	var found agent.Activity
	for _, x := range a.open {
		if x.entry.Kind == agent.KindApproval {
			return agent.Approval
		}
		found = agent.Asking
	}
	return found
}

// asked takes an entry about an ask from the adapter.
func (r *run) asked(e agent.Entry) {
	x := r.asks.open[e.ID]
	switch {
	case e.Ask.State == agent.AskOpen || e.Ask.State == "":
		r.openAsk(e, x)
	case x != nil:
		if x.deciding != nil && e.Ask.State != agent.AskWithdrawn {
			r.closeAsk(x, stateOf(x.deciding), x.deciding)
			return
		}
		r.closeAsk(x, e.Ask.State, e.Ask.Decision)
	case !r.asks.settled[e.ID]:
		r.journal.record(e)
	}
}

func (r *run) openAsk(e agent.Entry, known *ask) {
	copied := *e.Ask
	copied.State = agent.AskOpen
	e.Ask = &copied
	x := known
	if x == nil {
		x = &ask{}
		r.asks.open[e.ID] = x
		delete(r.asks.settled, e.ID)
		r.giveTime(x, e.ID, &copied)
	} else {
		copied.Deadline, copied.Reminders = x.entry.Ask.Deadline, x.entry.Ask.Reminders
	}
	x.entry = e
	r.journal.record(e)
	r.showActivity(agent.Status{})
	r.proceed()
}

// giveTime sets an ask's deadline, where it has one.
func (r *run) giveTime(x *ask, id string, a *agent.Ask) {
	d := time.Duration(r.spec.ApprovalTimeout)
	if d <= 0 || r.spec.OnTimeout == rundir.TimeoutWait {
		return
	}
	at := time.Now().Add(d).UTC()
	a.Deadline = &at
	x.deadline = r.loop.after(d, func() { r.nobodyDecided(id) })
}

// askAgain leaves an ask open beyond its deadline, and says so for those who can remind
// somebody of it.
func (r *run) askAgain(x *ask) {
	e := x.entry
	copied := *e.Ask
	copied.Reminders++
	r.giveTime(x, e.ID, &copied)
	e.Ask, e.Append = &copied, false
	x.entry = e
	r.journal.record(e)
}

// closeAsk writes down how an ask was settled.
func (r *run) closeAsk(x *ask, state agent.AskState, d *agent.Decision) {
	if r.asks.open[x.entry.ID] != x {
		return
	}
	if x.deadline != nil {
		x.deadline.Stop()
	}
	delete(r.asks.open, x.entry.ID)
	if r.asks.settled == nil {
		r.asks.settled = map[string]bool{}
	}
	r.asks.settled[x.entry.ID] = true
	e := x.entry
	copied := *e.Ask
	copied.State, copied.Decision = state, d
	e.Ask, e.Append = &copied, false
	r.journal.record(e)
	r.showActivity(agent.Status{})
	r.proceed()
}

// decide carries out OpDecide.
func (r *run) decide(cmd rundir.Command, reply func(rundir.Reply)) {
	if cmd.Decision == nil || r.asks.open[cmd.Decision.AskID] == nil {
		reply(refusal(rundir.CodeInvalid, "nothing is asked, or it is settled already"))
		return
	}
	d := *cmd.Decision
	if d.By == "" {
		d.By = cmd.By
	}
	x := r.asks.open[d.AskID]
	if x.deciding != nil {
		reply(refusal(rundir.CodeInvalid, "somebody has decided this a moment ago"))
		return
	}
	r.tell(x, d, func(err error) {
		if err != nil {
			reply(refusal(rundir.CodeFailed, "the agent did not take the decision: "+err.Error()))
			return
		}
		reply(rundir.Reply{OK: true, How: rundir.HowDone})
	})
}

// tell hands a decision to the agent and, once it has taken it, writes it down.
func (r *run) tell(x *ask, d agent.Decision, done func(error)) {
	x.deciding = &d
	r.loop.async(decideWait, func(ctx context.Context) error {
		return r.session.Decide(ctx, d)
	}, func(err error) {
		if err == nil {
			r.closeAsk(x, stateOf(&d), &d)
		}
		x.deciding = nil
		done(err)
	})
}

func stateOf(d *agent.Decision) agent.AskState {
	if d.TimedOut {
		return agent.AskTimedOut
	}
	return agent.AskDecided
}

func (r *run) nobodyDecided(id string) {
	x := r.asks.open[id]
	if x == nil || x.deciding != nil || r.ending != nil {
		return
	}
	if r.spec.OnTimeout == rundir.TimeoutRemind {
		r.askAgain(x)
		return
	}
	limit := time.Duration(r.spec.ApprovalTimeout)
	d := agent.Decision{AskID: id, TimedOut: true, Message: fmt.Sprintf("nobody decided within %s", limit)}
	r.tell(x, d, func(err error) {
		if err != nil {
			r.journal.record(agent.Entry{
				Kind: agent.KindError, Content: "the agent did not take that nobody decided: " + err.Error(),
			})
		}
	})
}

// withdrawAsks closes what is open at the end of the run.
func (r *run) withdrawAsks() {
	for _, id := range slices.Sorted(maps.Keys(r.asks.open)) {
		r.closeAsk(r.asks.open[id], agent.AskWithdrawn, nil)
	}
}
