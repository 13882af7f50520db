package rundir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/redact"
)

// maxEvent bounds one line of an events file. Writer and readers hold to it, so what
// was written can always be read again.
const maxEvent = 64 << 20

// keepBuffer is how large a buffer may be that is kept for the next line: a rare huge one
// must not cost its size for the rest of the run.
const keepBuffer = 256 << 10

// Cursor is a place in an events file: after the entry Seq, which ends at byte
// Offset. The zero value is the beginning.
type Cursor struct {
	Seq    int64 `json:"seq"`
	Offset int64 `json:"offset"`
}

// EventWriter appends entries to an events file. It is safe for concurrent use.
type EventWriter struct {
	mu  sync.Mutex
	f   *os.File
	at  Cursor // after the newest entry
	buf bytes.Buffer
}

// OpenEvents opens the events file of the execution in dir, or begins one. It goes on
// after the last complete line; a torn line, left by a crash within a write, was never
// seen by anyone and is cut off.
func OpenEvents(dir string) (*EventWriter, error) {
	f, err := os.OpenFile(filepath.Join(dir, EventsFile), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the events: %w", err)
	}
	at, err := lastEvent(f)
	if err == nil {
		err = f.Truncate(at.Offset)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the events: %w", err), f.Close())
	}
	return &EventWriter{f: f, at: at}, nil
}

// Append numbers the entry, dates it unless it is dated, masks it and writes it. It
// returns the entry as it stands in the file. After an error the file is as before.
func (w *EventWriter) Append(e agent.Entry, m *redact.Masker) (agent.Entry, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e.Seq = w.at.Seq + 1
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	e.Time = e.Time.UTC()
	e, line, err := w.encode(e, m)
	if err != nil {
		return e, fmt.Errorf("write entry %d: %w", e.Seq, err)
	}
	if err := appendWhole(w.f, line, w.at.Offset); err != nil {
		return e, fmt.Errorf("write entry %d: %w", e.Seq, err)
	}
	w.at = Cursor{Seq: e.Seq, Offset: w.at.Offset + int64(len(line))}
	return e, nil
}

// encode returns the masked entry and its line, which is good until the next call. The
// line tells cheaply whether there is anything to mask; what is masked then are the
// entry's texts, because masking the line itself could break its syntax (a secret may be
// a number, or a word that is also the name of a field).
func (w *EventWriter) encode(e agent.Entry, m *redact.Masker) (agent.Entry, []byte, error) {
	line, err := w.line(e)
	if err != nil {
		return e, nil, err
	}
	if masked := m.Bytes(line); len(masked) != len(line) || &masked[0] != &line[0] {
		if e, err = maskEntry(e, m); err == nil {
			line, err = w.line(e)
		}
	}
	if err == nil && len(line) > maxEvent {
		err = fmt.Errorf("its %d bytes are over the limit of %d", len(line), maxEvent)
	}
	return e, line, err
}

func (w *EventWriter) line(e agent.Entry) ([]byte, error) {
	if w.buf.Cap() > keepBuffer {
		w.buf = bytes.Buffer{}
	}
	w.buf.Reset()
	enc := json.NewEncoder(&w.buf)
	enc.SetEscapeHTML(false)
	err := enc.Encode(e) // ends the line
	return w.buf.Bytes(), err
}

// LastSeq returns the number of the newest entry, 0 where there is none.
func (w *EventWriter) LastSeq() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at.Seq
}

// Close closes the file.
func (w *EventWriter) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.f.Close()
}

// lastEvent finds the end of the last complete line and reads its number.
func lastEvent(f *os.File) (Cursor, error) {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return Cursor{}, err
	}
	end, err := lineStart(f, size)
	if err != nil || end == 0 {
		return Cursor{}, err
	}
	start, err := lineStart(f, end-1)
	if err != nil {
		return Cursor{}, err
	}
	line := make([]byte, end-start)
	if _, err := f.ReadAt(line, start); err != nil {
		return Cursor{}, err
	}
	var e agent.Entry
	if err := json.Unmarshal(line, &e); err != nil || e.Seq < 1 {
		return Cursor{}, fmt.Errorf("%s: the line at byte %d is not an entry: %w", f.Name(), start, cause(err))
	}
	return Cursor{Seq: e.Seq, Offset: end}, nil
}

// lineStart returns where the line that ends at end, newline not included, begins.
func lineStart(f io.ReaderAt, end int64) (int64, error) {
	block := make([]byte, 64<<10)
	for limit := end - maxEvent; end > 0 && end > limit; {
		b := block[:min(int64(len(block)), end)]
		if _, err := f.ReadAt(b, end-int64(len(b))); err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(b, '\n'); i >= 0 {
			return end - int64(len(b)) + int64(i) + 1, nil
		}
		end -= int64(len(b))
	}
	if end > 0 {
		return 0, fmt.Errorf("a line is over the limit of %d bytes", maxEvent)
	}
	return 0, nil
}

// appendWhole writes b to the end of f, which is at size, in one write. After an error it
// takes back what was written, so a full disk leaves no torn line for the next one to
// be glued to.
func appendWhole(f *os.File, b []byte, size int64) error {
	if _, err := f.Write(b); err != nil {
		return errors.Join(err, f.Truncate(size))
	}
	return nil
}

func cause(err error) error {
	if err == nil {
		return errors.New("it has no number")
	}
	return err
}
