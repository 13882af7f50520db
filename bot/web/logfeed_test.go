package web

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/agent"
)

// memoryLog is a log that a test lets grow.
type memoryLog struct {
	*bytes.Reader
	content []byte
}

func (m *memoryLog) ReadAt(p []byte, off int64) (int, error) {
	if off >= int64(len(m.content)) {
		return 0, io.EOF
	}
	n := copy(p, m.content[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}
func (m *memoryLog) Size() (int64, error) { return int64(len(m.content)), nil }
func (m *memoryLog) Close() error         { return nil }

// drain reads all there is and returns it with the prefixes back.
func drain(f *logFeed, final bool) (out []byte, ends []int64, err error) {
	for more := true; more; {
		if more, err = f.fill(); err != nil {
			return out, ends, err
		}
		err = f.each(final && !more, func(p piece) error {
			for line := range bytes.Lines(p.text) {
				out = fmt.Appendf(out, "[%s] %s", p.stream, line)
			}
			ends = append(ends, p.end)
			return nil
		})
		if err != nil {
			return out, ends, err
		}
	}
	return out, ends, nil
}

// reference is what a log looks like when each line is taken by itself.
func reference(log []byte) (out []byte) {
	for line := range bytes.Lines(log) {
		stream, text := splitPrefix(line)
		if len(text) > 0 {
			out = fmt.Appendf(out, "[%s] %s", stream, text)
		}
	}
	return out
}

// FuzzLogFeed holds the feed against the reference, for any log that grows in any
// steps, and resumed at any of the places it names.
func FuzzLogFeed(f *testing.F) {
	f.Add([]byte("[stdout] a\n[stdout] b\n[stderr] c\n"), uint16(3))
	f.Add([]byte("[stdout] \n[stdout]\n[system x\nno prefix"), uint16(1))
	f.Add([]byte(strings.Repeat("[stdout] x\n[stderr] y\n", 2000)), uint16(5000))
	f.Add([]byte("[stdout] "+strings.Repeat("long", 30000)+"\n[stderr] z"), uint16(9999))
	f.Fuzz(func(t *testing.T, log []byte, step uint16) {
		m := &memoryLog{}
		feed := newLogFeed(func() (engine.Log, error) { return m, nil })
		var got []byte
		var ends []int64
		for at := 0; at < len(log); {
			at = min(at+int(step)+1, len(log))
			m.content = log[:at]
			out, e, err := drain(feed, false)
			if err != nil {
				t.Fatal(err)
			}
			got, ends = append(got, out...), append(ends, e...)
		}
		out, e, err := drain(feed, true)
		if err != nil {
			t.Fatal(err)
		}
		got, ends = append(got, out...), append(ends, e...)
		if want := reference(log); !bytes.Equal(got, want) {
			t.Fatalf("got %q, want %q", got, want)
		}
		if feed.off != int64(len(log)) || !slices.IsSorted(ends) {
			t.Fatalf("it ended at %d of %d, ends %v", feed.off, len(log), ends)
		}
		resume(t, m, log, ends)
	})
}

// resume starts a new feed at each place that was named, a few of them if many.
func resume(t *testing.T, m *memoryLog, log []byte, ends []int64) {
	t.Helper()
	for i := 0; i < len(ends); i += 1 + len(ends)/8 {
		feed := newLogFeed(func() (engine.Log, error) { return m, nil })
		if err := feed.seek(ends[i]); err != nil {
			t.Fatal(err)
		}
		got, _, err := drain(feed, true)
		if err != nil {
			t.Fatal(err)
		}
		if want := reference(log[ends[i]:]); !bytes.Equal(got, want) {
			t.Fatalf("on from %d got %q, want %q", ends[i], got, want)
		}
	}
}

func TestAFeedOfALogThatIsNotThereYet(t *testing.T) {
	t.Parallel()
	var log engine.Log
	feed := newLogFeed(func() (engine.Log, error) {
		if log == nil {
			return nil, fmt.Errorf("open the log: %w", fs.ErrNotExist)
		}
		return log, nil
	})
	if out, _, err := drain(feed, false); err != nil || len(out) > 0 {
		t.Fatalf("%q, %v", out, err)
	}
	if err := feed.seek(1); engine.CodeOf(err) != engine.CodeInvalid {
		t.Errorf("beyond its end: %v", err)
	}
	log = &memoryLog{content: []byte("[stderr] x\n")}
	if out, _, err := drain(feed, false); err != nil || string(out) != "[stderr] x\n" {
		t.Errorf("%q, %v", out, err)
	}
}

func TestAFeedGivesItsMemoryBack(t *testing.T) {
	t.Parallel()
	m := &memoryLog{content: bytes.Repeat([]byte("[stdout] 0123456789\n"), 100_000)}
	feed := newLogFeed(func() (engine.Log, error) { return m, nil })
	if _, _, err := drain(feed, false); err != nil {
		t.Fatal(err)
	}
	if cap(feed.buf) > 2*feedSmall {
		t.Errorf("a quiet feed keeps %d bytes", cap(feed.buf))
	}
}

func TestALineWithoutEndIsBounded(t *testing.T) {
	t.Parallel()
	m := &memoryLog{content: append([]byte("[stderr] "), bytes.Repeat([]byte("x"), 3*feedLimit)...)}
	feed := newLogFeed(func() (engine.Log, error) { return m, nil })
	total := 0
	for more := true; more; {
		var err error
		if more, err = feed.fill(); err != nil {
			t.Fatal(err)
		}
		if len(feed.buf) > feedLimit+feedLarge {
			t.Fatalf("it holds %d bytes", len(feed.buf))
		}
		if err := feed.each(!more, func(p piece) error { total += len(p.text); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if total != 3*feedLimit {
		t.Errorf("%d bytes came through", total)
	}
}

func TestErrorsOfALogAreTold(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	feed := newLogFeed(func() (engine.Log, error) { return nil, broken })
	if _, err := feed.fill(); !errors.Is(err, broken) {
		t.Errorf("fill: %v", err)
	}
	if err := feed.seekTail(3); !errors.Is(err, broken) {
		t.Errorf("seek: %v", err)
	}
}

func BenchmarkLogFeed(b *testing.B) {
	path := filepath.Join(b.TempDir(), "log")
	line := "[stdout] " + strings.Repeat("x", 90) + "\n"
	if err := os.WriteFile(path, []byte(strings.Repeat(line, 100_000)), 0o600); err != nil {
		b.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(content)))
	for b.Loop() {
		feed := newLogFeed(func() (engine.Log, error) { return &memoryLog{content: content}, nil })
		for more := true; more; {
			if more, err = feed.fill(); err != nil {
				b.Fatal(err)
			}
			if err := feed.each(false, func(p piece) error { _ = agent.Stdout == p.stream; return nil }); err != nil {
				b.Fatal(err)
			}
		}
	}
}
