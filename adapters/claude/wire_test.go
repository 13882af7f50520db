package claude

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/threadmill/threadmill/engine/agent"
)

func writeFile(tb testing.TB, path, content string) {
	tb.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		tb.Fatal(err)
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"null", "[]", "42", `"x"`, "{}", `{"type":null}`, `{"type":{"a":1}}`, `{"type":"no_such"}`,
		`{"type":"system","subtype":"no_such"}`, `{"type":"system"}`, `{"type":"system","subtype":7}`,
	} {
		if event, err := parse([]byte(line)); event != nil || err != nil {
			t.Errorf("parse(%s) = %v, %v, want nothing", line, event, err)
		}
	}
	for _, line := range []string{"", "x", "{", `{"type":"user"} x`} {
		if _, err := parse([]byte(line)); !errors.Is(err, errNotJSON) {
			t.Errorf("parse(%q) = %v, want that it is not JSON", line, err)
		}
	}
	if _, err := parse([]byte(`{"type":"result","num_turns":"many"}`)); err == nil {
		t.Error("a number that is a text is taken")
	}
	event, err := parse([]byte(`{"type":"system","subtype":"api_retry","retry_delay_ms":532.7124,"error_status":null}`))
	if retry, ok := event.(*evRetry); err != nil || !ok || retry.DelayMS != 532.7124 {
		t.Errorf("a fraction is read as %+v, %v", event, err)
	}
}

// FuzzTake feeds whatever looks like a line: nothing panics, and what is told can be
// written down.
func FuzzTake(f *testing.F) {
	paths, err := filepath.Glob("testdata/*/*.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range paths {
		for _, r := range readTranscript(f, path) {
			if r.Dir == "out" && len(r.Line) < 4<<10 {
				f.Add([]byte(r.Line))
			}
		}
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		told := newTeller("/work-dir", time.Now)
		entries := told.started(1, "")
		for range 2 { // the second time it may be known
			event, err := parse(line)
			switch {
			case err != nil:
				entries = append(entries, told.garbage(line, err)...)
			case event != nil:
				entries = append(entries, told.take(event)...)
			}
			told.turn.wait()
		}
		for _, e := range append(entries, told.ended()...) {
			if _, err := json.Marshal(e); err != nil {
				t.Errorf("%+v cannot be written: %v", e, err)
			}
			if e.Content != "" && !utf8.ValidString(e.Content) {
				t.Errorf("%q is not valid UTF-8", e.Content)
			}
		}
	})
}

func TestGarbageEnds(t *testing.T) {
	t.Parallel()
	told := newTeller("/", time.Now)
	n := 0
	for range 10 * maxComplaints {
		n += len(told.garbage([]byte(strings.Repeat("\xff", 1000)), errNotJSON))
	}
	if n != maxComplaints {
		t.Errorf("%d lines were told, want %d", n, maxComplaints)
	}
}

func TestBill(t *testing.T) {
	t.Parallel()
	one := map[string]spent{"m": {Input: 100, CacheRead: 10, CacheWrite: 5, Output: 20, Cost: 0.5}}
	two := map[string]spent{"m": {Input: 200, CacheRead: 20, CacheWrite: 10, Output: 40, Cost: 1}}
	want := agent.Usage{InputTokens: 230, OutputTokens: 40, CostUSD: 1}
	for name, results := range map[string][]evResult{
		"totals":                     {{Totals: one}, {Totals: two}},
		"totals that begin anew":     {{Totals: one}, {Totals: one}, {Totals: map[string]spent{}}, {Totals: one}},
		"differences after a resume": {{Totals: two, Since: one}, {Totals: two, Since: one}},
		"differences, and nothing":   {{Since: one}, {Since: map[string]spent{}}, {Since: one}, {}},
	} {
		var b bill
		for _, r := range results {
			b.add(&r)
		}
		if b.sum != want {
			t.Errorf("%s: %+v, want %+v", name, b.sum, want)
		}
	}
}

func TestDiff(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		p    patch
		want string
	}{
		"edit": {
			patch{Hunks: []hunk{{OldStart: 3, OldLines: 2, NewStart: 3, NewLines: 1, Lines: []string{" a", "-b"}}}},
			"--- a/f\n+++ b/f\n@@ -3,2 +3 @@\n a\n-b\n",
		},
		"new file":                 {patch{Kind: "create", Content: "a\nb\n"}, "--- /dev/null\n+++ b/f\n@@ -0,0 +1,2 @@\n+a\n+b\n"},
		"new file without its end": {patch{Kind: "create", Content: "a"}, "--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+a\n\\ No newline at end of file\n"},
		"empty new file":           {patch{Kind: "create"}, ""},
		"no change":                {patch{Kind: "update"}, ""},
	} {
		if got := c.p.diff("f"); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	huge := patch{Kind: "create", Content: strings.Repeat("ä\n", maxDiff)}
	if got := huge.diff("f"); len(got) > maxDiff+100 || !utf8.ValidString(got) {
		t.Errorf("a huge diff has %d bytes", len(got))
	}
}
