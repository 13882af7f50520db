package runner

import (
	"context"
	"sync"
	"time"

	"github.com/threadmill/threadmill/engine/agent"
)

// loop is the one goroutine that changes a run. Others hand it functions.
type loop struct {
	ctx     context.Context //nolint:containedctx // of what the loop starts beside itself
	cancel  context.CancelFunc
	inbox   chan func()
	bell    chan struct{} // there are notes
	over    chan struct{} // closed when nothing is taken any more
	silent  chan struct{} // closed when no more entries will come
	entries <-chan agent.Entry
	ended   bool
	pending int // calls beside the loop
	goes    sync.WaitGroup

	mu    sync.Mutex
	notes []func()
}

func newLoop() *loop {
	return &loop{
		inbox: make(chan func()), bell: make(chan struct{}, 1),
		over: make(chan struct{}), silent: make(chan struct{}),
	}
}

// post waits until the loop runs f. It returns false, and f is never run, once the
// loop is over. It must not be called by the loop itself.
func (l *loop) post(f func()) bool {
	select {
	case l.inbox <- f:
		return true
	case <-l.over:
		return false
	}
}

// note has the loop run f soon and does not wait. It is for the few things that whoever
// notices them must not be held up by.
func (l *loop) note(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.notes = append(l.notes, f)
	select {
	case l.bell <- struct{}{}:
	default:
	}
}

func (l *loop) takeNotes() {
	l.mu.Lock()
	notes := l.notes
	l.notes = nil
	l.mu.Unlock()
	for _, f := range notes {
		f()
	}
}

// after runs f in the loop when d has passed.
func (l *loop) after(d time.Duration, f func()) *time.Timer {
	return time.AfterFunc(d, func() { l.note(f) })
}

// async runs call beside the loop and then settle in it. It is called by the loop. A
// limit of 0 is none. An adapter that ignores the end of its context is not waited for.
func (l *loop) async(limit time.Duration, call func(context.Context) error, settle func(error)) {
	l.pending++
	ctx, cancel := l.ctx, context.CancelFunc(func() {})
	if limit > 0 {
		ctx, cancel = context.WithTimeout(ctx, limit)
	}
	go func() {
		defer cancel()
		err := call(ctx)
		l.post(func() {
			l.pending--
			settle(err)
		})
	}()
}

// run passes entries on, one by one and never dropping any, and runs what is handed to
// it, until the adapter has closed the entries or the loop was ended.
func (l *loop) run(entry func(agent.Entry)) {
	defer close(l.silent)
	for !l.ended {
		select {
		case f := <-l.inbox:
			f()
		case <-l.bell:
			l.takeNotes()
		case e, ok := <-l.entries:
			if !ok {
				return
			}
			entry(e)
		}
	}
}

// end ends run from within.
func (l *loop) end() { l.ended = true }

// wait runs what is handed to the loop until done is closed.
func (l *loop) wait(done <-chan struct{}) {
	for {
		select {
		case f := <-l.inbox:
			f()
		case <-l.bell:
			l.takeNotes()
		case <-done:
			return
		}
	}
}

// settle waits, within a bound, for the calls beside the loop; then nothing is taken
// any more.
func (l *loop) settle(bound time.Duration) {
	timer := time.NewTimer(bound)
	defer timer.Stop()
	for late := false; l.pending > 0 && !late; {
		select {
		case f := <-l.inbox:
			f()
		case <-timer.C:
			late = true
		}
	}
	l.takeNotes()
	close(l.over)
	l.goes.Wait()
}
