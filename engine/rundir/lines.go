package rundir

import (
	"bytes"
	"sync"

	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/redact"
)

// maxLogLine is how long a line of the log may get before it is broken into two. It
// bounds what a program that never ends a line can make us hold.
const maxLogLine = 1 << 20

// LineWriter turns the raw output of one stream into masked and prefixed lines of the
// log, one write for each chunk. Carriage returns, NUL bytes and invalid UTF-8 stay as
// they are. It is safe for concurrent use.
type LineWriter struct {
	// Tee, where set before the first Write, is shown the lines that were written, masked
	// and prefixed. They are good until it returns.
	Tee func(lines []byte)

	mu     sync.Mutex
	log    *LogWriter
	mask   *redact.Stream
	prefix string
	masked []byte // scratch: the chunk after masking
	out    []byte // lines to write, then the unfinished one with its prefix
	held   int    // bytes of the unfinished line, without the prefix
}

// Stream returns a writer for one stream of a program, with its own place in the mask:
// what two programs write side by side is not one text.
func (w *LogWriter) Stream(s agent.Stream, m *redact.Masker) *LineWriter {
	return &LineWriter{log: w, mask: m.Stream(), prefix: "[" + string(s) + "] "}
}

// Write takes raw output. A last line without its end is held until that comes, until
// Flush, or until it has grown to 1 MiB. It takes all of p even where it returns an error.
func (w *LineWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.masked = w.mask.Write(w.masked[:0], p)
	return len(p), w.add(w.masked)
}

// Flush ends the unfinished line, if there is one, and writes it.
func (w *LineWriter) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.masked = w.mask.Flush(w.masked[:0])
	if len(w.masked) > 0 && w.masked[len(w.masked)-1] != '\n' || len(w.masked) == 0 && w.held > 0 {
		w.masked = append(w.masked, '\n')
	}
	return w.add(w.masked)
}

func (w *LineWriter) add(b []byte) error {
	done := 0 // bytes of w.out that are whole lines
	for len(b) > 0 {
		n := bytes.IndexByte(b[:min(len(b), maxLogLine-w.held+1)], '\n')
		switch {
		case n >= 0:
			w.put(b[:n+1])
			b, done = b[n+1:], len(w.out)
		case w.held+len(b) > maxLogLine:
			n = maxLogLine - w.held
			w.put(b[:n])
			w.out = append(w.out, '\n')
			b, done = b[n:], len(w.out)
		default:
			w.put(b)
			w.held += len(b)
			b = nil
			continue
		}
		w.held = 0
	}
	if done == 0 {
		return nil
	}
	err := w.log.Write(w.out[:done])
	if w.Tee != nil {
		w.Tee(w.out[:done])
	}
	w.out = append(w.out[:0], w.out[done:]...)
	return err
}

func (w *LineWriter) put(b []byte) {
	if w.held == 0 {
		w.out = append(w.out, w.prefix...)
	}
	w.out = append(w.out, b...)
}
