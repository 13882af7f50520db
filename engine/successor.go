package engine

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/rundir"
)

// OnLimit says what happens after a run that a usage limit of its agent has ended.
type OnLimit struct {
	Resume bool // continue its session by itself once the limit has reset; otherwise that is offered
	Max    int  // how many times in a row
}

// maxJitter bounds what a parked run waits beyond its time, so that not all that met the
// same limit start at once.
const maxJitter = 30 * time.Second

// successor is the execution that continues a failed one by itself, or nil. It is
// stored in the transaction that ends the first, so a service that is killed there
// neither forgets it nor makes it twice.
func (e *Engine) successor(x Execution, c Change) *NewExecution {
	cat := e.catalog.Load()
	a := cat.Agents[x.AgentID]
	session := first(c.SessionRef, x.SessionRef)
	if c.To != Failed || session == "" || !e.traits(x.AgentID).Resume {
		return nil
	}
	switch {
	case c.Reason == agent.ReasonRunnerLost && cat.OnLost.Resume && x.Resumes < cat.OnLost.Max:
		return e.continuation(x, a, session, "Your last run was cut off. Go on where you stopped.")
	case c.Reason == agent.ReasonAgentLimit && c.ResetsAt != nil && a.OnLimit.Resume && x.Resumes < a.OnLimit.Max:
		n := e.continuation(x, a, session, "The usage limit that ended your last run has reset. Go on where you stopped.")
		n.Execution.NotBefore = new(e.unpark(*c.ResetsAt))
		return n
	}
	return nil
}

// unpark is when a run that a limit has ended goes on.
func (e *Engine) unpark(resetsAt time.Time) time.Time {
	now := e.now()
	wait := max(0, resetsAt.Sub(now))
	jitter := min(maxJitter, wait/20)
	return now.Add(wait + rand.N(jitter+1)).UTC() //nolint:gosec // no secret
}

// continuation is an execution that resumes the session of x for the same person. What
// has changed in the configuration since is noticed when it starts.
func (e *Engine) continuation(x Execution, a Agent, session, text string) *NewExecution {
	at := e.now().UTC()
	n := Execution{
		ID: rundir.NewID(), TaskID: x.TaskID, AgentID: x.AgentID, CapabilityID: x.CapabilityID, ParentID: x.ID, Status: Queued,
		Mode: x.Mode, Args: x.Args, Prompt: text, Once: x.Once, SessionRef: session, Dir: x.Dir, RequestedBy: x.RequestedBy,
		CreatedAt: at, Resumes: x.Resumes + 1, IdempotencyKey: "resume-" + x.ID, Budget: a.Budget.runBudget(),
	}
	return &NewExecution{
		Execution: n,
		Audit: Audit{
			At: at, Actor: self, Action: "execution.create", Object: n.ID, Allowed: true,
			Detail: map[string]any{"capability": n.CapabilityID, "agent": n.AgentID, "resumes": x.ID},
		},
	}
}

// continued tells of a run that goes on by itself.
func (e *Engine) continued(x Execution, n *NewExecution) {
	if n == nil {
		return
	}
	e.log.Info("a run goes on by itself", "execution", x.ID, "number", x.Number, "reason", x.Reason,
		"child", n.Execution.ID, "times", n.Execution.Resumes, "not_before", n.Execution.NotBefore)
	e.watchers.ring(n.Execution.ID)
	e.bell.ring()
}

// notParked refuses to continue a session by hand while it is going to be continued by
// itself: two runs would work on it.
func (e *Engine) notParked(ctx context.Context, parent Execution) error {
	waiting, _, err := e.store.Executions(ctx, Filter{TaskID: parent.TaskID, Statuses: []Status{Queued}, PageSize: 200})
	if err != nil {
		return err
	}
	for _, x := range waiting {
		if x.ParentID == parent.ID && x.NotBefore != nil {
			return Errorf(CodeConflict, "execution #%d is parked as #%d until %s; cancel that one to go on now",
				parent.Number, x.Number, x.NotBefore.Format("2006-01-02 15:04 MST"))
		}
	}
	return nil
}
