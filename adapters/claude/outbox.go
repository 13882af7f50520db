package claude

import (
	"errors"
	"slices"
	"sync"
)

var (
	errGone    = errors.New("the agent has ended")
	errClosing = errors.New("the agent was asked to end and takes nothing more")
)

// outbox is the lines that wait to be written. Nobody who adds one waits for the CLI to
// read, which keeps the reader going: a CLI that is stuck writing does not read.
type outbox struct {
	mu      sync.Mutex
	more    sync.Cond
	waiting []*letter
	end     error // why nothing is taken any more
	dead    bool  // nothing is written any more either
}

// letter is a line on its way.
type letter struct {
	line []byte
	done chan struct{} // closed when it was written, or never will be
	err  error         // set before that
}

func newOutbox() *outbox {
	o := &outbox{}
	o.more.L = &o.mu
	return o
}

func (o *outbox) put(line []byte) (*letter, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.end != nil {
		return nil, o.end
	}
	l := &letter{line: line, done: make(chan struct{})}
	o.waiting = append(o.waiting, l)
	o.more.Signal()
	return l, nil
}

// withdraw takes a letter back, if it is not being written yet.
func (o *outbox) withdraw(l *letter) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	i := slices.Index(o.waiting, l)
	if i < 0 {
		return false
	}
	o.waiting = slices.Delete(o.waiting, i, i+1)
	return true
}

// next waits for the next letter; nil: there will be none.
func (o *outbox) next() *letter {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.waiting) == 0 && o.end == nil {
		o.more.Wait()
	}
	if len(o.waiting) == 0 || o.dead {
		return nil
	}
	l := o.waiting[0]
	o.waiting = slices.Delete(o.waiting, 0, 1)
	return l
}

// close lets nothing more in; what is waiting is still written.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.end == nil {
		o.end = errClosing
	}
	o.more.Signal()
}

// abort gives up what is waiting: there is nobody to read it.
func (o *outbox) abort() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.end, o.dead = errGone, true
	for _, l := range o.waiting {
		l.err = errGone
		close(l.done)
	}
	o.waiting = nil
	o.more.Signal()
}
