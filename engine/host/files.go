package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/rundir"
)

// Files opens what an execution has written.
func (h *Host) Files(id string) (engine.Files, error) {
	dir, err := h.dir(id)
	if err != nil {
		return nil, err
	}
	return &files{h: h, id: id, dir: dir}, nil
}

type files struct {
	h       *Host
	id, dir string
}

// OpenEntries opens the entries after a sequence number, which may lie ahead.
func (f *files) OpenEntries(ctx context.Context, after int64) (engine.EntryReader, error) {
	from, _, err := f.h.indexes.get(f.id).find(ctx, filepath.Join(f.dir, rundir.EventsFile), max(after, 0))
	if err != nil {
		return nil, err
	}
	events, err := rundir.OpenEventReader(f.dir, from)
	if err != nil {
		return nil, err
	}
	return &entries{EventReader: events, after: after}, nil
}

// entries are those of an events file after a number.
type entries struct {
	*rundir.EventReader

	after int64
}

// Next returns up to limit entries.
func (e *entries) Next(limit int) ([]agent.Entry, error) {
	for {
		list, _, err := e.EventReader.Next(limit)
		i := 0
		for i < len(list) && list[i].Seq <= e.after {
			i++
		}
		if i < len(list) || len(list) == 0 || err != nil {
			return list[i:], err
		}
	}
}

// OpenLog opens the whole log as one.
func (f *files) OpenLog() (engine.Log, error) {
	log, err := rundir.OpenLogReader(f.dir)
	if err != nil {
		return nil, err
	}
	return log, nil
}

// Tail returns the last n lines of the log.
func (f *files) Tail(n int) ([]string, error) {
	return rundir.Tail(f.dir, n)
}

// Changed returns a bell that rings after the files have changed.
func (f *files) Changed() (ring <-chan struct{}, stop func()) {
	b, stop := f.h.watcher.watch(f.dir)
	return b.ring, stop
}

const (
	// markEvery is how far the marks of an index lie apart. Counting lines in so much
	// takes some hundredths of a millisecond.
	markEvery = 256 << 10
	// maxIndexes bounds how many executions have an index in memory.
	maxIndexes = 128
)

// index finds the place of an entry in an events file without decoding those before
// it: numbers are gapless, so the end of entry N is the end of line N. Marks save the
// counting from the beginning for each page of a long file.
type index struct {
	mu    sync.Mutex
	marks []rundir.Cursor // ascending
}

// find returns the cursor after entry seq; found is false where the file is shorter.
func (x *index) find(ctx context.Context, path string, seq int64) (at rundir.Cursor, found bool, err error) {
	if seq == 0 {
		return rundir.Cursor{}, true, nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if i, exact := slices.BinarySearchFunc(x.marks, seq, func(c rundir.Cursor, seq int64) int { return int(c.Seq - seq) }); exact {
		return x.marks[i], true, nil
	} else if i > 0 {
		at = x.marks[i-1]
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return at, false, nil
	}
	if err != nil {
		return at, false, fmt.Errorf("look for an entry: %w", err)
	}
	defer f.Close()
	return x.scan(ctx, f, at, seq)
}

// scan counts lines on from a place until it is behind line seq, and sets marks.
func (x *index) scan(ctx context.Context, f io.ReaderAt, at rundir.Cursor, seq int64) (rundir.Cursor, bool, error) {
	buf := make([]byte, markEvery)
	for ctx.Err() == nil {
		n, err := f.ReadAt(buf, at.Offset)
		if err != nil && !errors.Is(err, io.EOF) {
			return at, false, fmt.Errorf("look for an entry: %w", err)
		}
		block := buf[:bytes.LastIndexByte(buf[:n], '\n')+1]
		if lines := int64(bytes.Count(block, []byte{'\n'})); at.Seq+lines < seq {
			if n < len(buf) {
				return at, false, nil // the end
			}
			if len(block) == 0 { // one line fills it
				buf = make([]byte, 2*len(buf))
				continue
			}
			at = rundir.Cursor{Seq: at.Seq + lines, Offset: at.Offset + int64(len(block))}
			x.mark(at)
			continue
		}
		for at.Seq < seq {
			end := bytes.IndexByte(block, '\n') + 1
			at = rundir.Cursor{Seq: at.Seq + 1, Offset: at.Offset + int64(end)}
			block = block[end:]
		}
		return at, true, nil
	}
	return at, false, ctx.Err()
}

// mark adds a place behind all others.
func (x *index) mark(at rundir.Cursor) {
	if n := len(x.marks); n == 0 || x.marks[n-1].Seq < at.Seq {
		x.marks = append(x.marks, at)
	}
}

// indexes are those of the executions that were read lately.
type indexes struct {
	mu   sync.Mutex
	byID map[string]*index
}

func (x *indexes) get(id string) *index {
	x.mu.Lock()
	defer x.mu.Unlock()
	if found := x.byID[id]; found != nil {
		return found
	}
	if x.byID == nil || len(x.byID) >= maxIndexes {
		x.byID = map[string]*index{} // they are quickly made again
	}
	x.byID[id] = &index{}
	return x.byID[id]
}

func (x *indexes) drop(id string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.byID, id)
}
