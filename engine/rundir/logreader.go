package rundir

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// readBlock is how much is asked of a file at once.
const readBlock = 64 << 10

// maxTail bounds what [Tail] reads, whatever the lines are like.
const maxTail = 16 << 20

// LogReader reads the whole log of an execution, rotated segments included, as one, while
// it grows. Reading at its end returns io.EOF; there may be more later. It is safe for
// concurrent use.
//
// That output.log has got a number is what tells that it is complete: it is written to
// before its renaming only. So a reader that meets its end and then finds the number
// has at most to look for more once again before it goes on to the next.
type LogReader struct {
	mu       sync.Mutex
	path     string
	pos      int64     // of Read and Seek
	segments []segment // the complete ones
	old      *os.File  // one of them
	oldIndex int       // which
	live     *os.File  // the one after them, nil where it is not there yet
	closed   bool
}

type segment struct{ start, end int64 }

// OpenLogReader opens the log of the execution in dir, which need not have begun.
func OpenLogReader(dir string) (*LogReader, error) {
	if _, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	return &LogReader{path: filepath.Join(dir, LogFile)}, nil
}

// Read reads on from the place of the last Read or Seek.
func (r *LogReader) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n, err := r.readAt(p, r.pos)
	r.pos += int64(n)
	return n, err
}

// ReadAt reads from off on until p is full or the log ends.
func (r *LogReader) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fmt.Errorf("read the log: offset %d is before its beginning", off)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	done := 0
	for done < len(p) {
		n, err := r.readAt(p[done:], off+int64(done))
		done += n
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// Seek sets the place of the next Read.
func (r *LogReader) Seek(offset int64, whence int) (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += r.pos
	case io.SeekEnd:
		size, err := r.size()
		if err != nil {
			return 0, err
		}
		offset += size
	default:
		return 0, fmt.Errorf("seek in the log: whence %d is unknown", whence)
	}
	if offset < 0 {
		return 0, fmt.Errorf("seek in the log: offset %d is before its beginning", offset)
	}
	r.pos = offset
	return offset, nil
}

// Size returns how many bytes the log has now.
func (r *LogReader) Size() (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.size()
}

// Close closes the files.
func (r *LogReader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	return errors.Join(closeFile(&r.old), closeFile(&r.live))
}

func (r *LogReader) size() (int64, error) {
	for {
		if err := r.openLive(); err != nil {
			return 0, err
		}
		if r.live == nil {
			return r.liveStart(), nil
		}
		info, err := r.live.Stat()
		if err != nil {
			return 0, fmt.Errorf("read the log: %w", err)
		}
		rotated, err := r.advance()
		if err != nil {
			return 0, err
		}
		if !rotated {
			return r.liveStart() + info.Size(), nil
		}
	}
}

// readAt reads some bytes at off, from one segment.
func (r *LogReader) readAt(p []byte, off int64) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		if err := r.openLive(); err != nil {
			return 0, err
		}
		if off < r.liveStart() {
			return r.readOld(p, off)
		}
		if r.live == nil {
			return 0, io.EOF
		}
		n, err := r.live.ReadAt(p, off-r.liveStart())
		if n > 0 {
			return n, nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, fmt.Errorf("read the log: %w", err)
		}
		rotated, err := r.advance()
		if err != nil {
			return 0, err
		}
		if !rotated {
			return 0, io.EOF
		}
	}
}

func (r *LogReader) readOld(p []byte, off int64) (int, error) {
	i, _ := slices.BinarySearchFunc(r.segments, off, func(s segment, off int64) int {
		if s.end <= off {
			return -1
		}
		return 1
	})
	if r.old == nil || r.oldIndex != i {
		if err := closeFile(&r.old); err != nil {
			return 0, fmt.Errorf("read the log: %w", err)
		}
		f, err := os.Open(segmentPath(r.path, i+1))
		if err != nil {
			return 0, fmt.Errorf("read the log: %w", err)
		}
		r.old, r.oldIndex = f, i
	}
	s := r.segments[i]
	n, err := r.old.ReadAt(p[:min(int64(len(p)), s.end-off)], off-s.start)
	if n > 0 {
		return n, nil
	}
	return 0, fmt.Errorf("read the log: segment %d is shorter than it was: %w", i+1, err)
}

// liveStart is where the first segment that is not known to be complete begins.
func (r *LogReader) liveStart() int64 {
	if len(r.segments) == 0 {
		return 0
	}
	return r.segments[len(r.segments)-1].end
}

// openLive finds the segment after the complete ones that we know, taking in all that
// have become complete.
func (r *LogReader) openLive() error {
	if r.closed {
		return fmt.Errorf("read the log: %w", fs.ErrClosed)
	}
	for r.live == nil {
		taken, err := r.takeComplete()
		if err != nil {
			return err
		}
		if taken {
			continue
		}
		f, err := os.Open(r.path)
		if errors.Is(err, fs.ErrNotExist) {
			// Either there is none, or it was just renamed.
			if taken, err = r.takeComplete(); err != nil || !taken {
				return err
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("read the log: %w", err)
		}
		// What we opened is the right one only if the number is still free.
		if _, err := os.Stat(r.nextPath()); !errors.Is(err, fs.ErrNotExist) {
			if err := errors.Join(err, f.Close()); err != nil {
				return fmt.Errorf("read the log: %w", err)
			}
			continue
		}
		r.live = f
	}
	return nil
}

// takeComplete notes the next segment if it is complete.
func (r *LogReader) takeComplete() (bool, error) {
	info, err := os.Stat(r.nextPath())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the log: %w", err)
	}
	start := r.liveStart()
	r.segments = append(r.segments, segment{start, start + info.Size()})
	return true, nil
}

// advance notes whether the live segment has become complete; the next one is then to be
// opened.
func (r *LogReader) advance() (bool, error) {
	taken, err := r.takeComplete()
	if err != nil || !taken {
		return false, err
	}
	if err := closeFile(&r.live); err != nil {
		return false, fmt.Errorf("read the log: %w", err)
	}
	return true, nil
}

func (r *LogReader) nextPath() string {
	return segmentPath(r.path, len(r.segments)+1)
}

func closeFile(f **os.File) error {
	if *f == nil {
		return nil
	}
	err := (*f).Close()
	*f = nil
	return err
}

// LogSize returns how many bytes the log of the execution in dir has now.
func LogSize(dir string) (int64, error) {
	r, err := OpenLogReader(dir)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	return r.Size()
}

// Tail returns the last n lines of the log of the execution in dir, without their ends.
// It reads at most 16 MiB, so of enormous lines it returns fewer.
func Tail(dir string, n int) ([]string, error) {
	r, err := OpenLogReader(dir)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if n <= 0 {
		return nil, nil
	}
	b, err := r.tail(n)
	if err != nil || len(b) == 0 {
		return nil, err
	}
	var lines []string
	for line := range bytes.SplitSeq(bytes.TrimSuffix(b, []byte{'\n'}), []byte{'\n'}) {
		lines = append(lines, string(line))
	}
	return lines, nil
}

// tail returns the end of the log that holds its last n lines.
func (r *LogReader) tail(n int) ([]byte, error) {
	size, err := r.Size()
	if err != nil {
		return nil, err
	}
	var blocks [][]byte
	for pos := size; pos > 0; {
		block := make([]byte, min(readBlock, pos))
		pos -= int64(len(block))
		if _, err := r.ReadAt(block, pos); err != nil {
			return nil, err
		}
		from := len(block)
		if pos+int64(from) == size && block[from-1] == '\n' {
			from-- // this ends the last line and begins none
		}
		start, found := lastLines(block[:from], &n)
		blocks = append(blocks, block[start:])
		if found {
			break
		}
		if size-pos >= maxTail {
			blocks = dropTorn(blocks)
			break
		}
	}
	slices.Reverse(blocks)
	return bytes.Join(blocks, nil), nil
}

// lastLines looks for the newline before the last n lines. It lowers n by the lines found
// and returns where the first of them begins.
func lastLines(b []byte, n *int) (start int, found bool) {
	for {
		i := bytes.LastIndexByte(b, '\n')
		if i < 0 {
			return 0, false
		}
		if *n--; *n == 0 {
			return i + 1, true
		}
		b = b[:i]
	}
}

// dropTorn removes the beginning up to the first newline from blocks, which are in
// reverse order.
func dropTorn(blocks [][]byte) [][]byte {
	for len(blocks) > 1 {
		last := len(blocks) - 1
		if i := bytes.IndexByte(blocks[last], '\n'); i >= 0 {
			blocks[last] = blocks[last][i+1:]
			return blocks
		}
		blocks = blocks[:last]
	}
	return blocks
}
