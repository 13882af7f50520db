package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/agent"
)

func TestTableAligns(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	a := &app{streams: streams{out: &out}}
	err := a.table([][]cell{head("#", "STATUS", "WHAT"), {{text: "#1"}, status(engine.Execution{Status: engine.Failed, Reason: agent.ReasonAuth}), {text: "größer"}}, plainRow("#10", "…", "")})
	if err != nil {
		t.Fatal(err)
	}
	want := "#    STATUS        WHAT\n#1   failed: auth  größer\n#10  …             \n"
	if out.String() != want {
		t.Errorf("got\n%q\nwant\n%q", out.String(), want)
	}
}

// What others wrote must neither move the cursor nor break a table.
func TestClean(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain":                    "plain",
		"a\nb\tc\r\nd":             "a b c d",
		"\x1b]0;title\x07\x1b[2Jx": "]0;title[2Jx",
		"\u202eabc\u200b":          "abc",
		"bad \xff byte":            "bad � byte",
	} {
		if got := clean(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

func TestShorten(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   string
		n    int
		want string
	}{{"short", 5, "short"}, {"longer", 5, "long…"}, {"größer", 4, "grö…"}, {"", 3, ""}} {
		if got := shorten(c.in, c.n); got != c.want {
			t.Errorf("%q in %d is %q, want %q", c.in, c.n, got, c.want)
		}
	}
}

func TestRoughly(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		12 * time.Millisecond:       "12ms",
		59 * time.Second:            "59s",
		61 * time.Second:            "1m01s",
		time.Hour + 2*time.Minute:   "1h02m",
		49 * time.Hour:              "2d",
		59*time.Minute + 59*1e9 + 1: "59m59s",
	} {
		if got := roughly(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

func TestSize(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 10 << 20: "10.0 MiB", 5 << 50: "5120.0 TiB"} {
		if got := size(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}

func TestAgo(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for back, want := range map[time.Duration]string{-time.Hour: "just now", 0: "just now", 5 * time.Second: "5s ago"} {
		if got := ago(now.Add(-back), now); got != want {
			t.Errorf("%v back is %q, want %q", back, got, want)
		}
	}
}

func TestLocalAddress(t *testing.T) {
	t.Parallel()
	for listen, want := range map[string]string{
		"127.0.0.1:4100": "http://127.0.0.1:4100",
		"0.0.0.0:4100":   "http://127.0.0.1:4100",
		":4100":          "http://127.0.0.1:4100",
		"[::]:4100":      "http://[::1]:4100",
		"localhost:80":   "http://localhost:80",
	} {
		if got := localAddress(listen); got != want {
			t.Errorf("%s is reached at %s, want %s", listen, got, want)
		}
	}
}
