package engine

import (
	"context"
	"time"

	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/rundir"
)

// changeFor is the change of status that a runner's result asks for.
func changeFor(res rundir.Result) Change {
	c := Change{
		To: statusOf(res.Status), At: res.EndedAt, Reason: res.Reason, Error: res.Message, ResetsAt: res.ResetsAt,
		ExitCode: res.ExitCode, Signal: res.Signal, Ended: res.Ended, Left: res.Left, SessionRef: res.SessionRef,
		LogBytes: res.LogBytes, LogLines: res.LogLines, Unsent: res.Unsent,
	}
	if res.Usage != (agent.Usage{}) {
		c.Usage = &res.Usage
	}
	return c
}

func statusOf(s rundir.Status) Status {
	switch s {
	case rundir.Succeeded:
		return Succeeded
	case rundir.TimedOut:
		return TimedOut
	case rundir.Cancelled:
		return Cancelled
	case rundir.Failed:
	}
	return Failed
}

// finish settles how an execution ended. A cancel that was asked for wins over
// whatever end came at the same time, and nothing is called ended while a process
// of it is left.
func (e *Engine) finish(ctx context.Context, id string, c Change) error {
	if c.Left > 0 {
		ended, err := e.sweep(ctx, id)
		if err != nil {
			return err
		}
		c.Ended, c.Left = c.Ended+ended, 0
	}
	c.ID = id
	if c.At.IsZero() {
		c.At = e.now().UTC()
	}
	if c.Usage != nil {
		c.Days = []DayUsage{{Day: e.catalog.Load().day(c.At), Total: *c.Usage}}
	}
	c, err := e.overspent(ctx, c)
	if err != nil {
		return err
	}
	if c.Tail == nil {
		c.Tail = e.tail(id)
	}
	return e.settle(ctx, c)
}

// settle makes the final change, whatever the execution's status has become since.
func (e *Engine) settle(ctx context.Context, c Change) error {
	x, err := e.store.Execution(ctx, c.ID)
	if err != nil || x.Status.Ended() {
		return err
	}
	c.Then = e.successor(x, c)
	switch {
	case x.Status == Cancelling:
		c.To, c.Reason, c.Error, c.Then = Cancelled, "", "", nil
	case c.To == Cancelled: // the runner was told to stop by a signal, not by us
		if _, err := e.store.Transition(ctx, Change{ID: c.ID, To: Cancelling, At: c.At}); err != nil {
			return err
		}
	}
	done, err := e.store.Transition(ctx, c)
	if CodeOf(err) == CodeConflict {
		return e.settle(ctx, c) // cancelled in between: look again
	}
	if err != nil {
		return err
	}
	e.log.InfoContext(ctx, "execution ended", "execution", done.ID, "number", done.Number, "status", done.Status, "reason", done.Reason)
	e.watchers.ring(c.ID)
	e.continued(done, c.Then)
	return nil
}

// tail returns the last lines of an execution's output, as far as there are any.
func (e *Engine) tail(id string) []string {
	files, err := e.host.Files(id)
	if err != nil {
		return nil
	}
	lines, err := files.Tail(TailLines)
	if err != nil {
		e.log.Warn("the end of a log could not be read", "execution", id, "error", err)
	}
	return lines
}

// lost settles an execution whose runner was killed: everything of it is ended and what
// it has written is read first, then it is said, then it is resumed where the catalog
// says so.
func (e *Engine) lost(ctx context.Context, r *run) error {
	ended, err := e.sweep(ctx, r.id)
	if err != nil {
		return err
	}
	if err := e.follow(ctx, r, Sighting{}); err != nil {
		return err
	}
	return e.finish(ctx, r.id, Change{
		To: Failed, Reason: agent.ReasonRunnerLost, Ended: ended,
		Error: "its runner was killed; what it had done so far is kept",
	})
}

// drop settles an execution that was cancelled before its runner showed up, and makes
// sure that none shows up later.
func (e *Engine) drop(ctx context.Context, id string) error {
	ended, err := e.sweep(ctx, id)
	if err != nil {
		return err
	}
	return e.finish(ctx, id, Change{To: Cancelled, Ended: ended})
}

// giveUp settles an execution that could not be started. A start that failed may have
// got further than it seemed, so it is made sure that nothing of it is there or shows
// up later.
func (e *Engine) giveUp(ctx context.Context, id string, reason agent.Reason, why string) error {
	ended, err := e.sweep(ctx, id)
	if err != nil {
		return err
	}
	return e.finish(ctx, id, Change{To: Failed, Reason: reason, Error: why, Ended: ended})
}

// sweep ends every process of an execution and does not give up while one is left:
// "stopped" is only said when it is so.
func (e *Engine) sweep(ctx context.Context, id string) (ended int, err error) {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		k, err := e.host.Kill(ctx, id)
		ended += k.Ended
		if err == nil && k.Left == 0 {
			return ended, nil
		}
		e.log.ErrorContext(ctx, "processes of a run could not be ended; trying again", "execution", id, "left", k.Left, "error", err)
		if !pause(ctx, wait) {
			return ended, ctx.Err()
		}
	}
}
