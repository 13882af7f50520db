package host

import (
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/threadmill/threadmill/engine/rundir"
)

// pollEvery is the pace of the fallback that always runs: notifications can be lost
// (a full queue, a limit on watches, a file system that has none), a look cannot.
const pollEvery = 500 * time.Millisecond

// news says what may have changed in an execution's directory.
type news uint32

const (
	newsEvents news = 1 << iota
	newsLog
	newsResult
	newsPoll // time to look at everything
)

// bell wakes one follower of one directory. It rings once for any number of changes.
type bell struct {
	ring chan struct{}
	news atomic.Uint32
}

func (b *bell) strike(n news) {
	b.news.Or(uint32(n))
	select {
	case b.ring <- struct{}{}:
	default: // it rings already
	}
}

// take returns what has come since the last take.
func (b *bell) take() news { return news(b.news.Swap(0)) }

// watcher watches the directories of all live executions: one inotify instance, one
// goroutine.
type watcher struct {
	fs   *fsnotify.Watcher // nil where the system gives none; then there is only the poll
	log  *slog.Logger
	tick func() // called at each poll

	mu      sync.Mutex
	places  map[string]*place
	warned  bool
	stop    chan struct{}
	stopped sync.WaitGroup
}

// place is one watched directory.
type place struct {
	bells   map[*bell]bool
	watched bool // the system notifies us
}

func newWatcher(log *slog.Logger, tick func()) *watcher {
	w := &watcher{log: log, tick: tick, places: map[string]*place{}, stop: make(chan struct{})}
	system, err := fsnotify.NewWatcher()
	if err != nil {
		log.Warn("no file notifications, looking twice a second instead", "error", err)
	} else {
		w.fs = system
	}
	w.stopped.Go(w.run)
	return w
}

// close stops watching. Bells stay silent from then on.
func (w *watcher) close() {
	w.mu.Lock()
	select {
	case <-w.stop:
	default:
		close(w.stop)
	}
	w.mu.Unlock()
	w.stopped.Wait()
}

// watch returns a bell for the directory; stop releases it. The directory need not
// exist yet.
func (w *watcher) watch(dir string) (b *bell, stop func()) {
	b = &bell{ring: make(chan struct{}, 1)}
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.places[dir]
	if p == nil {
		p = &place{bells: map[*bell]bool{}}
		w.places[dir] = p
		w.add(dir, p)
	}
	p.bells[b] = true
	return b, func() { w.release(dir, b) }
}

func (w *watcher) release(dir string, b *bell) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.places[dir]
	if p == nil || !p.bells[b] {
		return
	}
	delete(p.bells, b)
	if len(p.bells) > 0 {
		return
	}
	delete(w.places, dir)
	if p.watched {
		_ = w.fs.Remove(dir) // the directory may be gone, and the watch with it
	}
}

// add asks the system to notify us. What fails is tried again at each poll.
func (w *watcher) add(dir string, p *place) {
	if w.fs == nil {
		return
	}
	err := w.fs.Add(dir)
	p.watched = err == nil
	if err != nil && !errors.Is(err, fsnotify.ErrClosed) && !w.warned && !errors.Is(err, fs.ErrNotExist) {
		w.warned = true
		w.log.Warn("no file notifications for some runs, looking twice a second instead", "error", err)
	}
}

func (w *watcher) run() {
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	var events chan fsnotify.Event
	var faults chan error
	if w.fs != nil {
		events, faults = w.fs.Events, w.fs.Errors
		defer w.fs.Close()
	}
	for {
		select {
		case e, ok := <-events:
			if !ok {
				events = nil
				continue
			}
			w.strike(e.Name)
		case err, ok := <-faults:
			if !ok {
				faults = nil
				continue
			}
			w.fault(err)
		case <-poll.C:
			w.strikeAll()
			w.tick()
		case <-w.stop:
			return
		}
	}
}

// fault looks at everything, whatever was lost.
func (w *watcher) fault(err error) {
	if !errors.Is(err, fsnotify.ErrEventOverflow) {
		w.log.Warn("file notifications failed, looking at every run", "error", err)
	}
	w.strikeAll()
}

// strike rings for a change of the named file.
func (w *watcher) strike(name string) {
	n := meaning(filepath.Base(name))
	if n == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if p := w.places[filepath.Dir(name)]; p != nil {
		for b := range p.bells {
			b.strike(n)
		}
	}
}

// meaning tells what the change of a file of that name is news of.
func meaning(base string) news {
	switch base {
	case rundir.EventsFile:
		return newsEvents
	case rundir.LogFile:
		return newsLog
	case rundir.ResultFile, rundir.InfoFile:
		return newsResult
	}
	return 0
}

func (w *watcher) strikeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for dir, p := range w.places {
		if !p.watched {
			w.add(dir, p)
		}
		for b := range p.bells {
			b.strike(newsEvents | newsLog | newsResult | newsPoll)
		}
	}
}
