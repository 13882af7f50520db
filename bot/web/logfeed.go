package web

import (
	"bytes"
	"errors"
	"io"
	"io/fs"

	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/agent"
)

const (
	feedSmall = 8 << 10  // enough for a log that grows line by line
	feedLarge = 64 << 10 // for one that is being caught up with; pieces stay below it
	feedLimit = 4 << 20  // a line longer than this is cut: the writer breaks them far earlier
)

// logFeed cuts a growing log into pieces of whole lines of one stream each. It keeps
// no more than its buffer, however far the reader lags behind.
type logFeed struct {
	open func() (engine.Log, error)
	log  engine.Log // nil until there is one
	off  int64      // in the log, of the first byte in buf that was not passed on
	buf  []byte     // what was read and not passed on
	size int        // of the next read
	text []byte     // scratch for a piece
}

// piece is part of a log.
type piece struct {
	stream agent.Stream
	text   []byte // without the lines' prefixes; valid until the next call
	begin  int64  // its offset in the log
	end    int64  // the offset behind it
}

func newLogFeed(open func() (engine.Log, error)) *logFeed {
	return &logFeed{open: open, size: feedSmall}
}

// close closes the log.
func (f *logFeed) close() error {
	if f.log == nil {
		return nil
	}
	return f.log.Close()
}

// ensure opens the log; an execution that has not started has none.
func (f *logFeed) ensure() (bool, error) {
	if f.log != nil {
		return true, nil
	}
	log, err := f.open()
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	f.log = log
	return true, nil
}

// length is how much there is now.
func (f *logFeed) length() (int64, error) {
	there, err := f.ensure()
	if err != nil || !there {
		return 0, err
	}
	return f.log.Size()
}

// fill reads on; it reports whether there may be more at once.
func (f *logFeed) fill() (more bool, err error) {
	there, err := f.ensure()
	if err != nil || !there {
		return false, err
	}
	have := len(f.buf)
	if cap(f.buf) < have+f.size {
		f.buf = append(make([]byte, 0, max(have+f.size, 2*have)), f.buf...)
	}
	n, err := f.log.ReadAt(f.buf[have:have+f.size], f.off+int64(have))
	f.buf = f.buf[:have+n]
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	more = n == f.size
	f.size = feedSmall
	if more {
		f.size = feedLarge // there is much to read
	}
	return more, nil
}

// each passes on the pieces that are whole; with final also a last line without end,
// which nobody will finish any more.
func (f *logFeed) each(final bool, emit func(piece) error) error {
	passed := 0
	for passed < len(f.buf) {
		p, used := f.cut(f.buf[passed:], final)
		if used == 0 {
			break
		}
		p.begin, p.end = f.off, f.off+int64(used)
		if err := emit(p); err != nil {
			return err
		}
		f.off, passed = p.end, passed+used
	}
	f.buf = f.buf[:copy(f.buf, f.buf[passed:])]
	if len(f.buf) == 0 && cap(f.buf) > feedSmall {
		f.buf, f.text = nil, nil // streams are many and mostly quiet
	}
	return nil
}

// cut takes lines of one stream from the start of b; used counts their bytes.
func (f *logFeed) cut(b []byte, final bool) (p piece, used int) {
	f.text = f.text[:0]
	for used < len(b) {
		line, whole := firstLine(b[used:])
		if !whole && !final && len(b) < feedLimit {
			break
		}
		stream, text := splitPrefix(line)
		if used > 0 && stream != p.stream {
			break
		}
		p.stream = stream
		f.text = append(f.text, text...)
		used += len(line)
	}
	p.text = f.text
	return p, used
}

// firstLine returns b up to and with its first line end.
func firstLine(b []byte) (line []byte, whole bool) {
	if i := bytes.IndexByte(b, '\n'); i >= 0 {
		return b[:i+1], true
	}
	return b, false
}

// splitPrefix tells which stream a line of the log belongs to. A line that has no
// prefix, which only a crash in the middle of a write can leave, is taken as it is.
func splitPrefix(line []byte) (agent.Stream, []byte) {
	for _, s := range [...]agent.Stream{agent.Stdout, agent.Stderr, agent.System} {
		n := len(s) + len("[] ")
		if len(line) >= n && line[0] == '[' && string(line[1:n-2]) == string(s) && line[n-2] == ']' && line[n-1] == ' ' {
			return s, line[n:]
		}
	}
	return agent.Stdout, line
}

// seek moves the feed to an offset that a client has seen. One within a line goes
// back to the line's start, so that nothing is lost.
func (f *logFeed) seek(off int64) error {
	size, err := f.length()
	if err != nil {
		return err
	}
	if off > size {
		return engine.Errorf(engine.CodeInvalid, "the log has %d bytes, there is nothing after byte %d", size, off)
	}
	f.off = off
	if off == size || off == 0 {
		return nil
	}
	f.off, err = lineStart(f.log, off)
	return err
}

// seekTail moves the feed to the last n lines.
func (f *logFeed) seekTail(n int64) error {
	size, err := f.length()
	if err != nil || size == 0 {
		return err
	}
	f.off, err = tailStart(f.log, size, n)
	return err
}

// lineStart finds the start of the line that the byte at off belongs to.
func lineStart(r io.ReaderAt, off int64) (int64, error) {
	return before(r, off, 1)
}

// tailStart finds where the last n lines begin.
func tailStart(r io.ReaderAt, size, n int64) (int64, error) {
	return before(r, max(size-1, 0), n) // the last byte ends the last line, if it ends
}

// before returns the offset behind the nth line end before off, or 0.
func before(r io.ReaderAt, off, n int64) (int64, error) {
	block := make([]byte, feedSmall)
	for off > 0 {
		b := block[:min(off, int64(len(block)))]
		off -= int64(len(b))
		if _, err := r.ReadAt(b, off); err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		for i := bytes.LastIndexByte(b, '\n'); i >= 0; i = bytes.LastIndexByte(b[:i], '\n') {
			if n--; n == 0 {
				return off + int64(i) + 1, nil
			}
		}
	}
	return 0, nil
}
