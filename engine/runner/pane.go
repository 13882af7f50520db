package runner

import (
	"bytes"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/threadmill/threadmill/engine/rundir"
)

// The styles of the pane.
const (
	styleReset  = "\x1b[0m"
	styleBold   = "\x1b[1m"
	styleDim    = "\x1b[2m"
	styleRed    = "\x1b[31m"
	styleGreen  = "\x1b[32m"
	styleYellow = "\x1b[33m"
	styleCyan   = "\x1b[36m"
)

const (
	castLimit = 64 << 20
	// lastWords bounds the wait, at the end, for a terminal that takes no more text.
	lastWords = time.Second
)

// pane is the readable transcript: shown on the terminal, where there is one, and
// recorded. It is a view. Nothing that is written to it waits for it or fails with it.
type pane struct {
	began time.Time
	tape  *feed // to the recording
	glass *feed // to the terminal; nil without one

	mu   sync.Mutex
	cast *rundir.CastWriter // nil until it is opened
}

// newPane returns a pane that only keeps what is written; open shows it. So the start
// of the agent does not wait for a terminal.
func newPane(began time.Time, terminal bool) *pane {
	p := &pane{began: began, tape: newFeed()}
	if terminal {
		p.glass = newFeed()
	}
	return p
}

// open begins to record and, with a screen, to show. A recording that cannot be made is
// left out.
func (p *pane) open(dir, title string, s *screen) error {
	cols, rows := defaultCols, defaultRows
	if s != nil {
		cols, rows = s.size()
	}
	if p.glass != nil && s != nil {
		p.glass.start(s.show)
	}
	cast, err := rundir.OpenCast(filepath.Join(dir, rundir.CastFile), cols, rows, title, castLimit)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.cast = cast
	p.mu.Unlock()
	p.tape.start(p.record)
	return nil
}

// record writes to the recording what a terminal in raw mode would be sent.
func (p *pane) record(text []byte) {
	text = bytes.ReplaceAll(text, []byte("\n"), []byte("\r\n"))
	_ = p.cast.WriteOutput(text, time.Since(p.began)) // a view: a full disk shows in the log's own errors
}

// lines shows lines of which each begins with prefix bytes that are not to be shown.
func (p *pane) lines(lines []byte, prefix int) {
	p.tape.add(lines, prefix)
	if p.glass != nil {
		p.glass.add(lines, prefix)
	}
}

// print shows a text in a style; each of its lines is styled by itself.
func (p *pane) print(style, text string) {
	var b bytes.Buffer
	for line := range bytes.Lines([]byte(text)) {
		fmt.Fprintf(&b, "%s%s%s\n", style, bytes.TrimRight(line, "\r\n"), styleReset)
	}
	if b.Len() > 0 {
		p.lines(b.Bytes(), 0)
	}
}

// resize records that the terminal has changed its size.
func (p *pane) resize(cols, rows int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cast != nil {
		_ = p.cast.Resize(cols, rows, time.Since(p.began))
	}
}

// close shows what is left, within a bound, and ends the recording.
func (p *pane) close() error {
	p.tape.close(lastWords)
	if p.glass != nil {
		p.glass.close(lastWords)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cast == nil {
		return nil
	}
	return p.cast.Close()
}
