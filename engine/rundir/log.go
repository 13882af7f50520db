package rundir

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
)

// defaultRotate is the size of a log segment where the spec names none.
const defaultRotate = 10 << 20

// ErrLogLimit says that a log has reached the size it may have.
var ErrLogLimit = errors.New("the output limit is reached")

// LogWriter writes an output log: whole lines, in segments. A segment that has reached
// its size is renamed to output.log.1, .2, … (1 is the oldest) and a new output.log is
// begun, always between two lines; the log is the segments in order, then output.log.
// A segment is never written to after it has its number. LogWriter is safe for
// concurrent use.
type LogWriter struct {
	mu      sync.Mutex
	path    string
	f       *os.File
	size    int64 // of output.log
	rotated int   // segments so far
	rotate  int64
	limit   int64
	full    bool // the limit was reached; nothing is written any more
	bytes   atomic.Int64
	lines   atomic.Int64
}

// OpenLog opens the log of the execution in dir, or begins one. Its segments have rotate
// bytes (0: 10 MB), all of it at most limit (0: no limit). A last line that a crash
// has left without its end gets one.
func OpenLog(dir string, rotate, limit int64) (*LogWriter, error) {
	if rotate <= 0 {
		rotate = defaultRotate
	}
	w := &LogWriter{path: filepath.Join(dir, LogFile), rotate: rotate, limit: limit}
	if err := w.recover(dir); err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	f, err := os.OpenFile(w.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	w.f = f
	return w, nil
}

// recover counts what is there and completes the last line.
func (w *LogWriter) recover(dir string) error {
	r, err := OpenLogReader(dir)
	if err != nil {
		return err
	}
	defer r.Close()
	last, err := w.count(r)
	if err != nil || last == '\n' {
		return err
	}
	return w.completeLine()
}

// count sets the counters from an existing log and returns its last byte.
func (w *LogWriter) count(r *LogReader) (last byte, err error) {
	size, err := r.Size()
	if err != nil {
		return 0, err
	}
	last = '\n' // an empty log needs no completion
	buf := make([]byte, readBlock)
	for done := int64(0); done < size; {
		n, err := r.ReadAt(buf[:min(int64(len(buf)), size-done)], done)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		if n == 0 {
			return 0, io.ErrUnexpectedEOF
		}
		w.lines.Add(int64(bytes.Count(buf[:n], []byte{'\n'})))
		last = buf[n-1]
		done += int64(n)
	}
	w.bytes.Store(size)
	w.rotated = len(r.segments)
	w.size = size - r.liveStart()
	return last, nil
}

func (w *LogWriter) completeLine() error {
	f, err := os.OpenFile(w.path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	if _, err := f.WriteString("\n"); err != nil {
		return errors.Join(err, f.Close())
	}
	w.added([]byte{'\n'})
	return f.Close()
}

// Write appends lines, which must end in a newline. It returns ErrLogLimit, from then on
// always, when they do not fit into the limit, after writing those that do.
func (w *LogWriter) Write(lines []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.full {
		return ErrLogLimit
	}
	if len(lines) > 0 && lines[len(lines)-1] != '\n' {
		return errors.New("write the log: the last line has no end")
	}
	if room := w.limit - w.bytes.Load(); w.limit > 0 && int64(len(lines)) > room {
		w.full = true
		lines = lines[:bytes.LastIndexByte(lines[:max(room, 0)], '\n')+1]
	}
	for len(lines) > 0 {
		n, err := w.writeSegment(lines)
		if err != nil {
			return fmt.Errorf("write the log: %w", err)
		}
		lines = lines[n:]
	}
	if w.full {
		return ErrLogLimit
	}
	return nil
}

// writeSegment writes as many lines as it takes to fill the segment, and at least one.
func (w *LogWriter) writeSegment(lines []byte) (int, error) {
	if w.size >= w.rotate {
		if err := w.next(); err != nil {
			return 0, err
		}
	}
	if room := w.rotate - w.size; int64(len(lines)) > room {
		lines = lines[:int(room)+bytes.IndexByte(lines[room-1:], '\n')]
	}
	if err := appendWhole(w.f, lines, w.size); err != nil {
		return 0, err
	}
	w.added(lines)
	return len(lines), nil
}

func (w *LogWriter) added(lines []byte) {
	w.size += int64(len(lines))
	w.bytes.Add(int64(len(lines)))
	w.lines.Add(int64(bytes.Count(lines, []byte{'\n'})))
}

// next gives the segment its number and begins a new one. Killed between the two, it
// leaves a log without an output.log, which reader and writer understand.
func (w *LogWriter) next() error {
	if err := os.Rename(w.path, segmentPath(w.path, w.rotated+1)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(w.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	old := w.f
	w.f, w.size, w.rotated = f, 0, w.rotated+1
	return old.Close()
}

// Bytes returns how many bytes the log has.
func (w *LogWriter) Bytes() int64 { return w.bytes.Load() }

// Lines returns how many lines the log has.
func (w *LogWriter) Lines() int64 { return w.lines.Load() }

// Close closes the log.
func (w *LogWriter) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.f.Close()
}

func segmentPath(path string, n int) string {
	return path + "." + strconv.Itoa(n)
}
