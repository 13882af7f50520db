package engine

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/threadmill/threadmill/engine/agent"
)

// Options is what an engine works with.
type Options struct {
	Store    Store
	Host     Host
	Adapters map[string]agent.Adapter
	Environ  map[string]string // the service's environment, from which agents get what they are allowed
	Logger   *slog.Logger
	Now      func() time.Time // nil: time.Now
}

// Engine runs executions: it queues them, starts their runners, follows what they
// do, delivers what people say to them, and settles how they ended.
type Engine struct {
	store    Store
	host     Host
	adapters map[string]agent.Adapter
	environ  map[string]string
	log      *slog.Logger
	now      func() time.Time

	catalog      atomic.Pointer[catalog]
	availability availabilities
	watchers     watchers
	bell         bell // the queue has changed

	mu       sync.Mutex
	live     map[string]*run
	waiting  map[string]chan Command // callers who wait for a command's answer
	stopping bool

	take context.Context //nolint:containedctx // a started service's lifetime: ends when no more work is taken
	work context.Context //nolint:containedctx // the same: ends when work stops
	end  [2]context.CancelFunc
	wg   sync.WaitGroup
}

// New returns an engine that does nothing until Start. The catalog is to be set
// before.
func New(o Options) *Engine {
	e := &Engine{
		store: o.Store, host: o.Host, adapters: o.Adapters, environ: o.Environ, log: o.Logger, now: o.Now,
		bell: newBell(), live: map[string]*run{}, waiting: map[string]chan Command{},
	}
	if e.now == nil {
		e.now = time.Now
	}
	e.catalog.Store(&catalog{})
	return e
}

// Start takes up what an earlier process left (live runs are followed again, the
// queue goes on) and returns. The engine works until Stop; ctx only bounds the start.
func (e *Engine) Start(ctx context.Context) error {
	active, err := e.store.Active(ctx)
	if err != nil {
		return err
	}
	e.open(context.WithoutCancel(ctx))
	for _, x := range active {
		if !x.Status.Live() {
			continue
		}
		if r := e.register(x); r != nil {
			e.begin(r, x)
		}
	}
	e.goWork(e.take, "dispatch", e.dispatch)
	e.goWork(e.take, "heartbeat", e.heartbeat)
	e.goWork(e.take, "retention", e.retain)
	e.goWork(e.take, "budgets", e.enforce)
	return nil
}

// open begins the two lifetimes: taking work, and working.
func (e *Engine) open(ctx context.Context) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.work, e.end[1] = context.WithCancel(ctx)
	e.take, e.end[0] = context.WithCancel(e.work)
}

// Stop stops taking work, ends live executions first where the catalog says so, and
// waits. Executions that go on are found again by the next Start. It may be called
// twice; when ctx ends it gives up waiting for cancelled executions.
func (e *Engine) Stop(ctx context.Context) error {
	e.mu.Lock()
	started, again := e.take != nil, e.stopping
	e.stopping = true
	e.mu.Unlock()
	if !started {
		return nil
	}
	e.end[0]()
	var err error
	if !again && e.catalog.Load().CancelOnStop {
		err = e.cancelAll(ctx)
	}
	e.end[1]()
	e.wg.Wait()
	return err
}

// cancelAll cancels every live execution and waits until each has ended.
func (e *Engine) cancelAll(ctx context.Context) error {
	var errs []error
	for _, r := range e.runs() {
		if _, err := e.Cancel(ctx, r.id, "threadmill", false); err != nil && CodeOf(err) != CodeConflict {
			errs = append(errs, err)
		}
	}
	for _, r := range e.runs() {
		select {
		case <-r.done:
		case <-ctx.Done():
			return errors.Join(append(errs, ctx.Err())...)
		}
	}
	return errors.Join(errs...)
}

// goWork runs one of the engine's loops until it returns.
func (e *Engine) goWork(ctx context.Context, name string, loop func(context.Context)) {
	e.wg.Go(func() {
		loop(ctx)
		e.log.DebugContext(ctx, "loop ended", "loop", name)
	})
}

// runs returns the live runs.
func (e *Engine) runs() []*run {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([]*run, 0, len(e.live))
	for _, r := range e.live {
		out = append(out, r)
	}
	return out
}

// run returns a live run, or nil.
func (e *Engine) run(id string) *run {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.live[id]
}

// every calls f at once and then at each interval until ctx ends.
func every(ctx context.Context, interval time.Duration, f func(context.Context)) {
	t := time.NewTicker(interval)
	defer t.Stop()
	for {
		f(ctx)
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// pause waits for d; it reports false when ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
