package engine

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/rundir"
)

// dispatch starts queued executions as places become free. It looks at the store
// again whenever the bell rings, so nothing that was queued is ever forgotten.
func (e *Engine) dispatch(ctx context.Context) {
	again := time.NewTimer(0)
	defer again.Stop()
	for {
		wait, err := e.dispatchOnce(ctx)
		if err != nil && ctx.Err() == nil {
			e.log.ErrorContext(ctx, "the queue could not be worked on", "error", err)
		}
		again.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-e.bell:
		case <-again.C:
		}
	}
}

// lookAgain is when the queue is looked at without a ring, should one ever be missed.
const lookAgain = 10 * time.Second

// dispatchOnce starts what can be started and returns when to look again.
func (e *Engine) dispatchOnce(ctx context.Context) (time.Duration, error) {
	active, err := e.store.Active(ctx)
	if err != nil {
		return lookAgain, err
	}
	due, wait := unparked(active, e.now())
	start, end := plan(due, e.catalog.Load().Catalog)
	for _, x := range start {
		if err := e.claim(ctx, x); err != nil {
			return lookAgain, err
		}
	}
	for _, x := range end {
		e.endIdle(ctx, x)
	}
	return wait, nil
}

// unparked leaves out what is parked, and tells how long until the next one is due. A
// parked one holds no place and keeps nobody behind it waiting.
func unparked(active []Execution, now time.Time) (due []Execution, wait time.Duration) {
	wait = lookAgain
	for _, x := range active {
		if x.Status != Queued || x.NotBefore == nil || !x.NotBefore.After(now) {
			due = append(due, x)
			continue
		}
		wait = min(wait, x.NotBefore.Sub(now))
	}
	return due, wait
}

// plan decides, first come first served, which queued executions have a place now
// and which idle ones have to end to make one: an idle agent keeps nobody waiting,
// and there are never more processes than the limits allow.
func plan(active []Execution, cat Catalog) (start, end []Execution) {
	total, byAgent := 0, map[string]int{}
	var idle []Execution
	for _, x := range active {
		if !x.Status.Live() {
			continue
		}
		total++
		byAgent[x.AgentID]++
		if x.Status == Running && x.Activity == agent.Idle {
			idle = append(idle, x)
		}
	}
	slices.SortStableFunc(idle, func(a, b Execution) int { return compareTimes(a.IdleSince, b.IdleSince) })
	for _, x := range active {
		if x.Status != Queued {
			continue
		}
		limit := agentLimit(cat.Agents[x.AgentID])
		agentFull := limit > 0 && byAgent[x.AgentID] >= limit
		allFull := cat.MaxConcurrent > 0 && total >= cat.MaxConcurrent
		if agentFull || allFull {
			end, idle = giveWay(end, idle, x, agentFull)
			continue
		}
		total++
		byAgent[x.AgentID]++
		start = append(start, x)
	}
	return start, end
}

// giveWay moves the longest idle execution that blocks x from idle to end. Only one
// of the agent's own can help where the agent is full.
func giveWay(end, idle []Execution, x Execution, agentFull bool) (newEnd, newIdle []Execution) {
	i := slices.IndexFunc(idle, func(c Execution) bool { return !agentFull || c.AgentID == x.AgentID })
	if i < 0 {
		return end, idle
	}
	return append(end, idle[i]), slices.Delete(idle, i, i+1)
}

// agentLimit is how many executions of an agent may live at a time; 0: any number.
func agentLimit(a Agent) int {
	if a.OnBusy == BusyConcurrent {
		return 0
	}
	return a.MaxConcurrent
}

func compareTimes(a, b *time.Time) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return -1
	case b == nil:
		return 1
	}
	return cmp.Compare(a.UnixNano(), b.UnixNano())
}

// claim takes a queued execution for this process and pursues it. Somebody may have
// cancelled it a moment ago: then there is nothing to do. It is registered before it is
// running, so whoever cancels it from then on finds whom to tell.
func (e *Engine) claim(ctx context.Context, x Execution) error {
	l, over, err := e.dayOver(ctx, x)
	switch {
	case err != nil:
		return err
	case over: // used up since it was asked for
		return e.settle(ctx, Change{ID: x.ID, To: Failed, At: e.now().UTC(), Reason: agent.ReasonBudget, Error: l.refusal()})
	}
	r := e.register(x)
	if r == nil {
		return nil
	}
	started, err := e.store.Transition(ctx, Change{ID: x.ID, To: Running, At: e.now().UTC()})
	if err != nil {
		e.unregister(r)
		if CodeOf(err) == CodeConflict {
			return nil
		}
		return err
	}
	r.fresh = true
	e.watchers.ring(x.ID)
	e.begin(r, started)
	return nil
}

// endIdle asks an idle execution to end. The order has one id per idle period, so
// asking again while it ends does nothing.
func (e *Engine) endIdle(ctx context.Context, x Execution) {
	since := x.CreatedAt
	if x.IdleSince != nil {
		since = *x.IdleSince
	}
	id := "end-" + x.ID + "-" + since.UTC().Format(time.RFC3339Nano)
	_, created, err := e.store.AddCommand(ctx, Command{
		ExecutionID: x.ID, CreatedAt: e.now().UTC(), State: Pending,
		Command: rundir.Command{ID: id, Op: rundir.OpEnd, By: "threadmill"},
	}, nil)
	if err != nil || !created {
		return // it has ended, or was told already
	}
	if r := e.run(x.ID); r != nil {
		r.orders.ring()
	}
}
