package host

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/threadmill/threadmill/engine/rundir"
)

// maxCount bounds what one look reads to count lines, so that a flood of output, or
// the first look at an old log, does not hold up the entries.
const maxCount = 16 << 20

// logGauge keeps track of the size of a growing log.
type logGauge struct {
	dir     string
	reader  *rundir.LogReader
	bytes   int64
	counted int64 // bytes whose lines are in n
	n       int64
	known   bool // counted has once caught up with bytes
	buf     []byte
}

// measure looks at the log; changed is true where it has grown.
func (g *logGauge) measure() (changed bool, err error) {
	if g.reader == nil {
		if g.reader, err = rundir.OpenLogReader(g.dir); err != nil {
			g.reader = nil
			if errors.Is(err, fs.ErrNotExist) {
				return false, nil
			}
			return false, err
		}
	}
	size, err := g.reader.Size()
	if err != nil {
		return false, err
	}
	changed = size != g.bytes || g.counted < size
	g.bytes = size
	return changed, g.count()
}

// count counts the lines that were added.
func (g *logGauge) count() error {
	goal := min(g.bytes, g.counted+maxCount)
	if g.counted < goal && g.buf == nil {
		g.buf = make([]byte, min(256<<10, max(4<<10, goal-g.counted)))
	}
	for g.counted < goal {
		n, err := g.reader.ReadAt(g.buf[:min(int64(len(g.buf)), goal-g.counted)], g.counted)
		g.n += int64(bytes.Count(g.buf[:n], []byte{'\n'}))
		g.counted += int64(n)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("count the lines of the log: %w", err)
		}
		if n == 0 {
			break
		}
	}
	if g.counted == g.bytes {
		g.known, g.buf = true, nil
	}
	return nil
}

// lines is the number of lines, or 0 while it is not known.
func (g *logGauge) lines() int64 {
	if !g.known {
		return 0
	}
	return g.n
}

func (g *logGauge) close() {
	if g.reader != nil {
		_ = g.reader.Close()
	}
}
