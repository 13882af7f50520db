package runner

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/proc"
	"github.com/threadmill/threadmill/engine/rundir"
)

const (
	// defaultGrace is the time between SIGTERM and SIGKILL where the spec names none.
	defaultGrace = 5 * time.Second
	// politeWait bounds each polite step: the interrupt, the request to end, and the
	// time after it in which the agent may end by itself.
	politeWait = time.Second
	// silenceWait bounds how long an adapter may take to notice that all is gone.
	silenceWait = 5 * time.Second
)

// endKind says why a run ends.
type endKind int

const (
	endNatural endKind = iota // the agent has ended
	endIdle                   // its turn is over and no more is wanted
	endCancel
	endTimeout
	endLimit  // of the output
	endBroken // the run cannot be written down
)

// ending is a run that is being brought to its end.
type ending struct {
	kind  endKind
	by    string // who cancelled
	err   error  // endBroken: why
	force bool

	reason agent.Reason // endCancel: the run has failed for it; empty: somebody wanted it to end
	why    string

	at        time.Time
	hurry     chan struct{} // closed: no more patience
	hurryOnce *sync.Once
	signalled *atomic.Bool  // processes were signalled: their exit says nothing
	done      chan struct{} // closed when no process is left; then swept is set
	stopped   time.Time
	swept     proc.Swept
	sweepErr  error
}

// farewell is what is to be done, as it stood when the end began.
type farewell struct {
	kind    endKind
	force   bool
	session agent.Session
	working bool
}

// stop begins to bring the run to its end, once. It is called by the loop.
func (r *run) stop(e ending) {
	if r.ending != nil {
		r.hasten(e)
		return
	}
	e.at, e.hurry, e.done = time.Now(), make(chan struct{}), make(chan struct{})
	e.hurryOnce, e.signalled = &sync.Once{}, &atomic.Bool{}
	r.ending = &e
	if e.force {
		close(e.hurry)
		e.hurryOnce.Do(func() {})
	}
	r.stopIdleTimer()
	session, working := r.session, r.activity() != agent.Idle
	plan := farewell{kind: e.kind, force: e.force, session: session, working: working}
	r.loop.goes.Go(func() { r.bringDown(&e, plan) })
}

// hasten lets a second order make an end that is under way quicker, and lets a person's
// cancel take the place of an end that nobody had asked for.
func (r *run) hasten(e ending) {
	now := r.ending
	if e.kind == endCancel && e.reason == "" && (now.kind == endNatural || now.kind == endIdle) {
		now.kind, now.by = endCancel, e.by
	}
	if e.force {
		now.hurryOnce.Do(func() { close(now.hurry) })
	}
}

// cancel stops the run because somebody wants it to end.
func (r *run) cancel(by string, force bool) {
	r.stop(ending{kind: endCancel, by: by, force: force})
}

// timedOut ends a run whose time is over. An agent that has done its work and only
// waits for more did not run out of time.
func (r *run) timedOut() {
	if r.session != nil && r.idle() {
		r.stop(ending{kind: endIdle})
		return
	}
	r.stop(ending{kind: endTimeout})
}

// stopWriting ends a run whose log is full, or whose files cannot be written.
func (r *run) stopWriting(err error) {
	if errors.Is(err, rundir.ErrLogLimit) {
		r.stop(ending{kind: endLimit})
		return
	}
	r.stop(ending{kind: endBroken, err: err})
}

// bringDown ends everything the run has started. It runs beside the loop, which goes
// on taking what the agent says meanwhile.
func (r *run) bringDown(e *ending, plan farewell) {
	defer close(e.done)
	ctx := context.WithoutCancel(r.loop.ctx) // an end that has begun is carried through
	if plan.session != nil && !plan.force {
		r.askPolitely(ctx, e, plan)
	}
	select {
	case <-r.loop.silent:
	default:
		e.signalled.Store(true)
	}
	r.spawner.seal()
	e.swept, e.sweepErr = proc.Sweep(ctx, proc.Target{
		ExecutionID: r.spec.ExecutionID, Root: os.Getpid(), Grace: r.grace(), Hurry: e.hurry,
	})
	e.stopped = time.Now()
	r.loop.cancel() // whatever still waits for an agent waits for nothing
	if !waitFor(silenceWait, r.loop.silent) {
		r.loop.note(r.loop.end)
		<-r.loop.silent
	}
}

// askPolitely gives the agent the chance to end by itself. An end that nobody ordered
// has all the patience there is.
func (r *run) askPolitely(ctx context.Context, e *ending, plan farewell) {
	patience := politeWait
	switch plan.kind {
	case endIdle:
		patience = r.grace()
	case endCancel, endTimeout:
		if !r.traits.Messages {
			return // it is no session: nothing to save
		}
		if plan.working && r.traits.Interrupt {
			_ = r.within(ctx, e, plan.session.Interrupt) // the signals come anyway
		}
	case endNatural, endLimit, endBroken:
		return
	}
	if r.within(ctx, e, plan.session.Close) == nil {
		waitFor(patience, r.loop.silent, e.hurry)
	}
}

// within makes a polite call; an adapter that is stuck in it is left behind.
func (r *run) within(ctx context.Context, e *ending, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, politeWait)
	defer cancel()
	result := make(chan error, 1)
	go func() { result <- call(ctx) }()
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
	case <-r.loop.silent:
	case <-e.hurry:
	}
	return context.Canceled
}

// waitFor waits until one of the channels is closed, no longer than d, and reports
// whether the first one is.
func waitFor(d time.Duration, first <-chan struct{}, others ...<-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	var other <-chan struct{}
	if len(others) > 0 {
		other = others[0]
	}
	select {
	case <-first:
		return true
	case <-other:
	case <-timer.C:
	}
	return false
}

func (r *run) grace() time.Duration {
	if r.spec.KillGrace > 0 {
		return time.Duration(r.spec.KillGrace)
	}
	return defaultGrace
}
