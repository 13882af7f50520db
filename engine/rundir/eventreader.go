package rundir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/threadmill/threadmill/engine/agent"
)

// eventBlock is the buffer of a reader at first: hundreds of runs are followed at once,
// and their entries are mostly short.
const eventBlock = 8 << 10

// ReadEvents reads up to limit entries (0: all) of the execution in dir on from a cursor,
// and returns the cursor after them. See [EventReader.Next].
func ReadEvents(dir string, from Cursor, limit int) ([]agent.Entry, Cursor, error) {
	r, err := OpenEventReader(dir, from)
	if err != nil {
		return nil, from, err
	}
	defer r.Close()
	return r.Next(limit)
}

// EventReader reads a growing events file and keeps it open in between. It is for one
// goroutine at a time.
type EventReader struct {
	path   string
	f      *os.File // nil until the file exists
	at     Cursor
	buf    []byte
	lo, hi int // buf[lo:hi] is the file from at.Offset on
}

// OpenEventReader returns a reader of the events of the execution in dir, on from a
// cursor. The file need not exist yet.
func OpenEventReader(dir string, from Cursor) (*EventReader, error) {
	if from.Seq < 0 || from.Offset < 0 {
		return nil, fmt.Errorf("read the events: cursor %+v is not a place in a file", from)
	}
	return &EventReader{path: filepath.Join(dir, EventsFile), at: from}, nil
}

// Next returns up to limit entries (0: all there are) and the cursor after them; none
// where there is nothing new. A last line without its end is left for the next call. A
// line that is no entry, or whose number is not the next one, is an error that names
// file and offset; the entries before it come with it.
func (r *EventReader) Next(limit int) ([]agent.Entry, Cursor, error) {
	var entries []agent.Entry
	for limit <= 0 || len(entries) < limit {
		line, err := r.line()
		if err != nil || line == nil {
			return entries, r.at, err
		}
		e, err := r.parse(line)
		if err != nil {
			return entries, r.at, err
		}
		entries = append(entries, e)
		r.lo += len(line)
		r.at = Cursor{Seq: e.Seq, Offset: r.at.Offset + int64(len(line))}
	}
	return entries, r.at, nil
}

// Close closes the file.
func (r *EventReader) Close() error {
	if r.f == nil {
		return nil
	}
	return r.f.Close()
}

// line returns the next line with its end, or nil where there is no complete one. It is
// good until the next call.
func (r *EventReader) line() ([]byte, error) {
	for searched := 0; ; {
		have := r.buf[r.lo:r.hi]
		if i := bytes.IndexByte(have[searched:], '\n'); i >= 0 {
			return have[:searched+i+1], nil
		}
		if searched = len(have); searched > maxEvent {
			return nil, r.fault(fmt.Errorf("it is over the limit of %d bytes", maxEvent))
		}
		more, err := r.fill()
		if err != nil {
			return nil, err
		}
		if !more {
			r.forget()
			return nil, nil
		}
	}
}

// fill reads on; more is false at the end of the file.
func (r *EventReader) fill() (more bool, err error) {
	if err := r.open(); err != nil || r.f == nil {
		return false, err
	}
	r.makeRoom()
	n, err := r.f.ReadAt(r.buf[r.hi:], r.at.Offset+int64(r.hi))
	if err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("read the events: %w", err)
	}
	if n == 0 && r.hi == 0 {
		return false, r.checkSize()
	}
	r.hi += n
	return n > 0, nil
}

// makeRoom moves what is unread to the front of the buffer and doubles a full one.
func (r *EventReader) makeRoom() {
	r.hi = copy(r.buf, r.buf[r.lo:r.hi])
	r.lo = 0
	if r.hi == len(r.buf) {
		r.buf = append(r.buf, make([]byte, max(eventBlock, len(r.buf)))...)
	}
}

// forget drops a torn line, because it may be cut off and written anew after a crash, and
// a buffer that was needed once only.
func (r *EventReader) forget() {
	r.lo, r.hi = 0, 0
	if len(r.buf) > keepBuffer {
		r.buf = nil
	}
}

func (r *EventReader) open() error {
	if r.f != nil {
		return nil
	}
	f, err := os.Open(r.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the events: %w", err)
	}
	r.f = f
	return nil
}

// checkSize tells the end of the file from a cursor beyond it, which would wait for ever.
func (r *EventReader) checkSize() error {
	info, err := r.f.Stat()
	if err != nil {
		return fmt.Errorf("read the events: %w", err)
	}
	if info.Size() < r.at.Offset {
		return fmt.Errorf("read the events: %s has %d bytes, but was already read up to byte %d", r.path, info.Size(), r.at.Offset)
	}
	return nil
}

func (r *EventReader) parse(line []byte) (agent.Entry, error) {
	var e agent.Entry
	if err := json.Unmarshal(line, &e); err != nil {
		return e, r.fault(err)
	}
	if e.Seq != r.at.Seq+1 {
		return e, r.fault(fmt.Errorf("it has number %d instead of %d", e.Seq, r.at.Seq+1))
	}
	return e, nil
}

func (r *EventReader) fault(err error) error {
	return fmt.Errorf("read the events: %s: the line at byte %d is damaged: %w", r.path, r.at.Offset, err)
}
