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

	mu     sync.Mutex
	feeds  []*feed
	cast   *rundir.CastWriter
	early  []early // what was written before it was opened
	opened bool
}

type early struct {
	lines  []byte
	prefix int
}

// newPane returns a pane that only keeps what is written; open shows it. So the start
// of the agent does not wait for a terminal.
func newPane(began time.Time) *pane {
	return &pane{began: began}
}

// open begins to record at path and to show on the screen, which may be nil. A recording
// that cannot be made is left out.
func (p *pane) open(dir, title string, s *screen) error {
	cols, rows := defaultCols, defaultRows
	if s != nil {
		cols, rows = s.size()
	}
	cast, err := rundir.OpenCast(filepath.Join(dir, rundir.CastFile), cols, rows, title, castLimit)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.cast = cast
		p.feeds = append(p.feeds, newFeed(p.record))
	}
	if s != nil {
		p.feeds = append(p.feeds, newFeed(s.show))
	}
	p.opened = true
	for _, e := range p.early {
		p.pass(e.lines, e.prefix)
	}
	p.early = nil
	return err
}

// record writes to the recording what a terminal in raw mode would be sent.
func (p *pane) record(text []byte) {
	text = bytes.ReplaceAll(text, []byte("\n"), []byte("\r\n"))
	_ = p.cast.WriteOutput(text, time.Since(p.began)) // a view: a full disk shows in the log's own errors
}

// lines shows the lines of a program's output, without the prefix of the log.
func (p *pane) lines(lines []byte, prefix int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.opened {
		p.pass(lines, prefix)
		return
	}
	keep := lines[max(0, len(lines)-feedSize/4):]
	p.early = append(p.early, early{bytes.Clone(keep), prefix})
	if len(p.early) > 64 {
		p.early = p.early[1:]
	}
}

func (p *pane) pass(lines []byte, prefix int) {
	for _, f := range p.feeds {
		f.add(lines, prefix)
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
	p.mu.Lock()
	feeds, cast := p.feeds, p.cast
	p.mu.Unlock()
	for _, f := range feeds {
		f.close(lastWords)
	}
	if cast == nil {
		return nil
	}
	return cast.Close()
}
