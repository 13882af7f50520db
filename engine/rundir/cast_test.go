package rundir_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/threadmill/threadmill/engine/rundir"
)

func TestCast(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := openCast(t, dir, 0)
	for i, b := range []string{"héllo\r\n\x1b[31m", "caf\xc3", "\xa9 \xe2\x82", "\xac!", "", "\xff", "\xf0\x9f"} {
		if err := w.WriteOutput([]byte(b), time.Duration(i)*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Resize(80, 24, time.Second); err != nil { // a clock that went back
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	head, events := readCast(t, dir)
	if head["version"] != 2.0 || head["width"] != 120.0 || head["height"] != 36.0 || head["title"] != `#1 "x"` || head["timestamp"] == 0.0 {
		t.Errorf("head = %v", head)
	}
	want := [][]any{
		{0.0, "o", "héllo\r\n\x1b[31m"},
		{1.0, "o", "caf"},
		{2.0, "o", "é "},
		{3.0, "o", "€!"},
		{5.0, "o", "\ufffd"},
		{6.0, "r", "80x24"},
		{6.0, "o", "\ufffd\ufffd"},
	}
	if diff := cmp.Diff(want, events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if mode := fileMode(t, dir, rundir.CastFile); mode != 0o600 {
		t.Errorf("mode = %o", mode)
	}
}

func TestCastLimit(t *testing.T) {
	t.Parallel()
	for limit := int64(300); limit < 330; limit++ {
		dir := t.TempDir()
		w := openCast(t, dir, limit)
		for range 20 {
			if err := w.WriteOutput([]byte("0123456789"), 12345*time.Second); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if size := fileSize(t, dir, rundir.CastFile); size > limit {
			t.Errorf("%d bytes with a limit of %d", size, limit)
		}
		_, events := readCast(t, dir)
		if last := events[len(events)-1]; last[1] != "m" || len(events) < 3 {
			t.Errorf("%d events, the last one %v", len(events), last)
		}
	}
}

func FuzzCast(f *testing.F) {
	f.Add([]byte("h\xc3\xa9llo \"x\"\\ \x00\x1f\x7f\u2028"), []byte{2, 1})
	f.Add([]byte("\xf0\x9f\x98\x80\xff\xe2\x82"), []byte{1, 1, 1, 1})
	f.Fuzz(func(t *testing.T, text, cuts []byte) {
		dir := t.TempDir()
		w := openCast(t, dir, 0)
		rest := text
		for _, cut := range append(cuts, 255) {
			n := min(int(cut), len(rest))
			if err := w.WriteOutput(rest[:n], 0); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		_, events := readCast(t, dir)
		for _, e := range events {
			got.WriteString(e[2].(string))
		}
		want := string([]rune(string(text[:len(text)-len(rest)]))) // as Go reads what is not UTF-8
		if got.String() != want {
			t.Fatalf("%q cut %v was recorded as %q", text, cuts, got.String())
		}
	})
}

func openCast(t *testing.T, dir string, limit int64) *rundir.CastWriter {
	t.Helper()
	w, err := rundir.OpenCast(filepath.Join(dir, rundir.CastFile), 120, 36, `#1 "x"`, limit)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func readCast(t *testing.T, dir string) (head map[string]any, events [][]any) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, rundir.CastFile))
	if err != nil {
		t.Fatal(err)
	}
	first, rest, _ := bytes.Cut(b, []byte("\n"))
	if err := json.Unmarshal(first, &head); err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(rest) {
		var e []any
		if err := json.Unmarshal(line, &e); err != nil || len(e) != 3 {
			t.Fatalf("event %q: %v", line, err)
		}
		events = append(events, e)
	}
	return head, events
}
