package engine

import (
	"sync"
	"time"

	"github.com/threadmill/threadmill/engine/agent"
)

// bell says "look again". It holds at most one ring, so ringing never blocks and
// rings that nobody heard yet are one.
type bell chan struct{}

func newBell() bell { return make(bell, 1) }

func (b bell) ring() {
	select {
	case b <- struct{}{}:
	default:
	}
}

// everything is the id under which bells ring for every execution.
const everything = ""

// watchers are the bells of those who want to know when an execution's row changes.
type watchers struct {
	mu    sync.Mutex
	bells map[string]map[bell]struct{}
}

func (w *watchers) add(id string) (bell, func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.bells == nil {
		w.bells = map[string]map[bell]struct{}{}
	}
	if w.bells[id] == nil {
		w.bells[id] = map[bell]struct{}{}
	}
	b := newBell()
	w.bells[id][b] = struct{}{}
	return b, func() { w.remove(id, b) }
}

func (w *watchers) remove(id string, b bell) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.bells[id], b)
	if len(w.bells[id]) == 0 {
		delete(w.bells, id)
	}
}

func (w *watchers) ring(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for b := range w.bells[id] {
		b.ring()
	}
	for b := range w.bells[everything] {
		b.ring()
	}
}

// availabilityTTL is how long an adapter's word about its binary is believed.
const availabilityTTL = time.Minute

// availabilities remembers which agents can run here.
type availabilities struct {
	mu sync.Mutex
	by map[string]checked
}

type checked struct {
	at time.Time
	av agent.Availability
}

func (a *availabilities) get(id string, now time.Time, look func() agent.Availability) agent.Availability {
	a.mu.Lock()
	c, ok := a.by[id]
	a.mu.Unlock()
	if ok && now.Sub(c.at) < availabilityTTL {
		return c.av
	}
	av := look() // outside the lock: it may start a program
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.by == nil {
		a.by = map[string]checked{}
	}
	a.by[id] = checked{at: now, av: av}
	return av
}

func (a *availabilities) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.by = nil
}
