package lines_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/threadmill/threadmill/adapters/internal/lines"
)

type line struct {
	Text string
	Cut  bool
}

func readAll(t *testing.T, r io.Reader, limit int) []line {
	t.Helper()
	var got []line
	in := lines.NewReader(r, limit)
	for {
		text, cut, err := in.Next()
		if errors.Is(err, io.EOF) {
			return got
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, line{string(text), cut})
	}
}

func TestNext(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100_000)
	cases := []struct {
		name, in string
		limit    int
		want     []line
	}{
		{"nothing", "", 10, nil},
		{"lines", "a\n\nb\r\nc", 10, []line{{"a", false}, {"", false}, {"b", false}, {"c", false}}},
		{"exactly the limit", "12345\n12345", 5, []line{{"12345", false}, {"12345", false}}},
		{"over the limit", "123456\nok\n123456", 5, []line{{"12345", true}, {"ok", false}, {"12345", true}}},
		{"longer than the buffer", long + "\nok\n", 1 << 20, []line{{long, false}, {"ok", false}}},
		{"far over the limit", long + "\nok\n", 70_000, []line{{long[:70_000], true}, {"ok", false}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, readAll(t, strings.NewReader(c.in), c.limit)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.want, readAll(t, iotest.OneByteReader(strings.NewReader(c.in)), c.limit)); diff != "" {
				t.Errorf("byte by byte (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNextError passes on what the stream reports, after what it gave.
func TestNextError(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	in := lines.NewReader(io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(broken)), 10)
	for _, want := range []string{"a", "b"} {
		if got, _, err := in.Next(); err != nil || string(got) != want {
			t.Errorf("Next = %q, %v, want %q", got, err, want)
		}
	}
	if _, _, err := in.Next(); !errors.Is(err, broken) {
		t.Errorf("Next = %v, want the stream's error", err)
	}
}

// FuzzNext holds the reader against a split of the whole.
func FuzzNext(f *testing.F) {
	f.Add([]byte("a\nbb\r\nccc"), uint16(2))
	f.Add(bytes.Repeat([]byte("x"), 40_000), uint16(35_000))
	f.Fuzz(func(t *testing.T, in []byte, limit uint16) {
		maxLen := int(limit) + 1
		var want []line
		for l := range bytes.Lines(in) {
			l = bytes.TrimSuffix(bytes.TrimSuffix(l, []byte("\n")), []byte("\r"))
			if bytes.HasSuffix(l[:min(len(l), maxLen)], []byte("\r")) || bytes.HasSuffix(l, []byte("\r")) {
				t.Skip("carriage returns at a cut are dropped or kept as it comes")
			}
			want = append(want, line{string(l[:min(len(l), maxLen)]), len(l) > maxLen})
		}
		if diff := cmp.Diff(want, readAll(t, bytes.NewReader(in), maxLen)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
