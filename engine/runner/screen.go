package runner

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/term"
)

// The size that is assumed where there is no terminal to ask.
const (
	defaultCols = 120
	defaultRows = 36
)

const (
	keyInterrupt = 0x03
	keyEnd       = 0x04 // would end the line editor, not the run
)

// screen is the terminal that a pane is shown on. Where its input is a terminal too,
// a line at the bottom takes text, and output goes above it.
type screen struct {
	in, out *os.File
	line    *term.Terminal // nil: no input
	state   *term.State    // the terminal before
	stop    chan struct{}
	ended   sync.WaitGroup
	gone    chan struct{} // closed once the terminal takes nothing more, or nobody types there any more
	leave   func()        // closes gone

	// What the line editor writes is kept first, under a lock that nobody holds while the
	// terminal blocks; then brought to the terminal, by one at a time.
	mu       sync.Mutex
	pending  []byte
	flushing sync.Mutex
}

// typist is told what somebody does at the keyboard.
type typist interface {
	typed(line string)
	interrupted()
}

// openScreen takes over a terminal; it returns nil where out is none. What is typed
// goes to who, which may be nil.
func openScreen(in, out *os.File, who typist, resized func(cols, rows int)) *screen {
	if out == nil || !term.IsTerminal(int(out.Fd())) {
		return nil
	}
	s := &screen{in: in, out: out, stop: make(chan struct{}), gone: make(chan struct{})}
	s.leave = sync.OnceFunc(func() { close(s.gone) })
	if in != nil && who != nil && term.IsTerminal(int(in.Fd())) {
		if state, err := term.MakeRaw(int(in.Fd())); err == nil {
			s.state = state
			s.line = term.NewTerminal(keyboard{s, who}, "> ")
			s.line.SetBracketedPasteMode(true)
			go s.read(who) // a read from a terminal cannot be ended: it goes with the process
		}
	}
	s.ended.Go(func() { s.watchSize(resized) })
	return s
}

func (s *screen) size() (cols, rows int) {
	cols, rows, err := term.GetSize(int(s.out.Fd()))
	if err != nil || cols <= 0 || rows <= 0 {
		return defaultCols, defaultRows
	}
	return cols, rows
}

func (s *screen) watchSize(resized func(cols, rows int)) {
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	defer signal.Stop(changed)
	s.fit(nil)
	for {
		select {
		case <-changed:
			s.fit(resized)
		case <-s.stop:
			return
		}
	}
}

func (s *screen) fit(resized func(cols, rows int)) {
	cols, rows := s.size()
	if s.line != nil {
		_ = s.line.SetSize(cols, rows)
	}
	if resized != nil {
		resized(cols, rows)
	}
}

// show puts text above the line that is being typed. It blocks while the terminal
// takes nothing; a terminal that is gone takes everything.
func (s *screen) show(text []byte) {
	if s.line == nil {
		s.write(text)
		return
	}
	_, _ = s.line.Write(text)
	s.flush()
}

func (s *screen) flush() {
	s.flushing.Lock()
	defer s.flushing.Unlock()
	s.mu.Lock()
	text := s.pending
	s.pending = nil
	s.mu.Unlock()
	if len(text) > 0 {
		s.write(text)
	}
}

func (s *screen) write(text []byte) {
	if _, err := s.out.Write(text); err != nil {
		s.leave()
	}
}

// close gives the terminal back.
func (s *screen) close() {
	if s == nil {
		return
	}
	close(s.stop)
	s.ended.Wait()
	if s.state != nil {
		_ = term.Restore(int(s.in.Fd()), s.state)
	}
}

// read passes typed lines on. Lines that were pasted together are one text.
func (s *screen) read(who typist) {
	defer s.leave()
	var pasted strings.Builder
	for {
		line, err := s.line.ReadLine()
		pasted.WriteString(line)
		switch {
		case errors.Is(err, term.ErrPasteIndicator):
			pasted.WriteByte('\n')
			continue
		case err != nil:
			return
		}
		if text := strings.TrimSpace(pasted.String()); text != "" {
			who.typed(text)
		}
		pasted.Reset()
	}
}

// keyboard is what the line editor reads from and writes to. It collects what the
// editor writes in small pieces, and takes the keys out that are not the editor's.
type keyboard struct {
	s   *screen
	who typist
}

// Write collects; the next read, or whoever wrote, brings it to the terminal.
func (k keyboard) Write(b []byte) (int, error) {
	k.s.mu.Lock()
	defer k.s.mu.Unlock()
	k.s.pending = append(k.s.pending, b...)
	return len(b), nil
}

// Read reads keys.
func (k keyboard) Read(b []byte) (int, error) {
	k.s.flush()
	for {
		n, err := k.s.in.Read(b)
		if n <= 0 && err == nil {
			err = io.EOF
		}
		kept := b[:0]
		for _, c := range b[:max(n, 0)] {
			switch c {
			case keyInterrupt:
				k.who.interrupted()
			case keyEnd:
			default:
				kept = append(kept, c)
			}
		}
		if len(kept) > 0 || err != nil {
			return len(kept), err
		}
	}
}
