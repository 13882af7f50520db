package runner

import (
	"bytes"
	"fmt"
	"sync"
	"time"
)

const (
	feedSize = 256 << 10 // waiting text

	// One frame at a time, and no more in it than this: text that comes in small pieces
	// is passed on in larger ones, and a flood (2 MB/s are left of it) does not burn the
	// tmux server's CPU for what nobody can read.
	feedFrame = 33 * time.Millisecond
	feedStep  = 64 << 10
)

// feed passes text on to a slow or stuck reader without ever making the writer wait:
// it holds a bounded amount, drops the oldest lines when that is full, says in the text
// how much it has dropped, and passes on no faster than a terminal is worth.
type feed struct {
	bell chan struct{}
	done chan struct{} // closed when all was passed on; nil until it is started

	mu      sync.Mutex
	buf     []byte
	spans   []span // of buf, in order
	skipped int64
	closed  bool
}

// span is a run of lines with the same prefix, which is not passed on.
type span struct{ size, prefix int }

func newFeed() *feed { return &feed{bell: make(chan struct{}, 1)} }

// start begins to pass on what was added and will be. It calls out from one goroutine;
// out may block.
func (f *feed) start(out func(text []byte)) {
	f.done = make(chan struct{})
	go f.run(out)
}

// add takes lines of which each begins with prefix bytes that are not to be shown.
func (f *feed) add(lines []byte, prefix int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return
	}
	if len(f.buf)+len(lines) > feedSize {
		f.drop(len(f.buf) + len(lines) - feedSize/2) // half of it, so that it is not done each time
		if len(lines) > feedSize/2 {
			rest := afterLine(lines, len(lines)-feedSize/2)
			f.skipped += int64(len(lines) - len(rest))
			lines = rest
		}
	}
	f.buf = append(f.buf, lines...)
	if n := len(f.spans); n > 0 && f.spans[n-1].prefix == prefix {
		f.spans[n-1].size += len(lines)
	} else {
		f.spans = append(f.spans, span{len(lines), prefix})
	}
	f.ring()
}

// drop forgets at least n bytes from the beginning, up to the end of a line.
func (f *feed) drop(n int) {
	rest := afterLine(f.buf, min(n, len(f.buf)))
	f.skipped += int64(len(f.buf) - len(rest))
	f.consume(len(f.buf) - len(rest))
}

// consume removes n bytes from the beginning.
func (f *feed) consume(n int) {
	f.buf = append(f.buf[:0], f.buf[n:]...)
	for n > 0 {
		s := &f.spans[0]
		if s.size > n {
			s.size -= n
			return
		}
		n -= s.size
		f.spans = append(f.spans[:0], f.spans[1:]...)
	}
}

// afterLine returns b after the end of the line that byte n-1 is in.
func afterLine(b []byte, n int) []byte {
	if n <= 0 {
		return b
	}
	if i := bytes.IndexByte(b[n-1:], '\n'); i >= 0 {
		return b[n+i:]
	}
	return nil
}

func (f *feed) ring() {
	select {
	case f.bell <- struct{}{}:
	default:
	}
}

// close passes on what is left, at full speed, and waits for that within the bound.
func (f *feed) close(bound time.Duration) {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	if f.done == nil {
		return
	}
	f.ring()
	timer := time.NewTimer(bound)
	defer timer.Stop()
	select {
	case <-f.done:
	case <-timer.C: // the reader is stuck; its goroutine ends with the process
	}
}

func (f *feed) run(out func(text []byte)) {
	defer close(f.done)
	timer := time.NewTimer(0)
	defer timer.Stop()
	<-timer.C
	var last time.Time
	for {
		text, closed := f.take()
		switch {
		case len(text) > 0:
			out(text)
			last = time.Now()
		case closed:
			return
		default:
			<-f.bell
		}
		// The timer only runs while text comes faster than frames: one that is set for
		// each line would keep the Go scheduler awake between them.
		if rest := feedFrame - time.Since(last); rest > 0 && f.waiting() {
			timer.Reset(rest)
			<-timer.C
		}
	}
}

// waiting reports whether there is text that may wait for its frame.
func (f *feed) waiting() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.spans) > 0 && !f.closed
}

// take returns the next whole lines, fit for a terminal, and whether no more will come.
func (f *feed) take() (text []byte, closed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.skipped > 0 {
		text = fmt.Appendf(text, "%s… %d bytes skipped, see the log%s\n", styleDim, f.skipped, styleReset)
		f.skipped = 0
	}
	for len(f.spans) > 0 && len(text) < feedStep {
		s := f.spans[0]
		lines := f.buf[:s.size]
		if s.size > feedStep {
			lines = f.buf[:s.size-len(afterLine(f.buf[:s.size], feedStep))]
		}
		for line := range bytes.Lines(lines) {
			text = sanitize(text, line[min(s.prefix, len(line)):])
		}
		f.consume(len(lines))
	}
	return text, f.closed
}
