package runner

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// collect starts the feed and returns what it passes on until it is closed.
func collect(f *feed) func() string {
	var out bytes.Buffer
	f.start(func(text []byte) { out.Write(text) })
	return func() string {
		f.close(time.Minute)
		return out.String()
	}
}

func TestFeedPassesOnInOrder(t *testing.T) {
	t.Parallel()
	f := newFeed()
	f.add([]byte("before\n"), 0)
	end := collect(f)
	f.add([]byte("[stdout] one\n[stdout] two\n"), len("[stdout] "))
	f.add([]byte("note\n"), 0)
	if got, want := end(), "before\none\ntwo\nnote\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	f.add([]byte("too late\n"), 0)
}

// TestFeedDropsTheOldest writes more than a feed holds, in pieces of several sizes.
func TestFeedDropsTheOldest(t *testing.T) {
	t.Parallel()
	for _, lines := range []int{1, 7, 5000, 50_000} {
		t.Run(fmt.Sprint(lines), func(t *testing.T) {
			t.Parallel()
			f := newFeed()
			const total = 100_000
			var written int
			for i := 0; i < total; {
				var b bytes.Buffer
				for n := 0; n < lines && i < total; n, i = n+1, i+1 {
					fmt.Fprintf(&b, "[stdout] %d\n", i)
				}
				written += b.Len()
				f.add(b.Bytes(), len("[stdout] "))
				if len(f.buf) > feedSize {
					t.Fatalf("holds %d bytes", len(f.buf))
				}
			}
			checkFeed(t, collect(f)(), total, written)
		})
	}
}

var skipped = regexp.MustCompile(`… (\d+) bytes skipped`)

// checkFeed checks that what is left are the last lines, whole, and that the bytes that
// are said to be skipped are the others.
func checkFeed(t *testing.T, out string, total, written int) {
	t.Helper()
	head, rest, _ := strings.Cut(out, "\n")
	m := skipped.FindStringSubmatch(head)
	if m == nil {
		t.Fatalf("no marker: %q", head)
	}
	lines := strings.Split(strings.TrimSpace(rest), "\n")
	for i, line := range lines {
		if want := strconv.Itoa(total - len(lines) + i); line != want {
			t.Fatalf("line %d is %q, want %q", i, line, want)
		}
	}
	n, _ := strconv.Atoi(m[1])
	if shown := len(rest) + len(lines)*len("[stdout] "); n+shown != written {
		t.Errorf("%d skipped and %d shown are not %d", n, shown, written)
	}
}

func TestFeedWithAStuckReader(t *testing.T) {
	t.Parallel()
	f := newFeed()
	entered, release := make(chan struct{}, 100), make(chan struct{})
	f.start(func([]byte) {
		entered <- struct{}{}
		<-release
	})
	f.add([]byte("one\n"), 0)
	<-entered
	for range 100 {
		f.add(bytes.Repeat([]byte("x\n"), 10_000), 0)
	}
	f.close(time.Millisecond) // comes back
	close(release)
	<-f.done
}
