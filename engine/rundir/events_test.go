package rundir_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/redact"
	"github.com/threadmill/threadmill/engine/rundir"
)

func TestEventsComeBackAsTheyWereStored(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	code, deadline := 3, time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	stored := appendAll(t, dir, nil, []agent.Entry{
		{Kind: agent.KindAssistant, ID: "a", Append: true, Content: "<b> & \u2028 \"quoted\"\nnext"},
		{Kind: agent.KindToolUse, Tool: &agent.Tool{Name: "sh", Input: json.RawMessage(`{"n":12345678901234567890}`), ExitCode: &code}},
		{Kind: agent.KindApproval, Ask: &agent.Ask{State: agent.AskOpen, Deadline: &deadline}, Time: deadline},
		{Kind: agent.KindUsage, Usage: &agent.Usage{InputTokens: 1 << 60, CostUSD: 0.25}, Meta: map[string]any{"model": "m"}},
	})
	got, at, err := rundir.ReadEvents(dir, rundir.Cursor{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(stored, got); diff != "" {
		t.Errorf("read (-stored +read):\n%s", diff)
	}
	if want := (rundir.Cursor{Seq: 4, Offset: fileSize(t, dir, rundir.EventsFile)}); at != want {
		t.Errorf("cursor = %+v, want %+v", at, want)
	}
	if mode := fileMode(t, dir, rundir.EventsFile); mode != 0o600 {
		t.Errorf("mode = %o", mode)
	}
}

func TestEventsAreReadInBatches(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	stored := appendAll(t, dir, nil, numbered(25))
	var got []agent.Entry
	for at := (rundir.Cursor{}); ; {
		batch, next, err := rundir.ReadEvents(dir, at, 4)
		if err != nil {
			t.Fatal(err)
		}
		if len(batch) == 0 {
			break
		}
		got, at = append(got, batch...), next
	}
	if diff := cmp.Diff(stored, got); diff != "" {
		t.Errorf("read (-stored +read):\n%s", diff)
	}
}

func TestEventsOfConcurrentWritersAreGapless(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := openEvents(t, dir)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				if _, err := w.Append(agent.Entry{Kind: agent.KindSystem}, nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if got, _, err := rundir.ReadEvents(dir, rundir.Cursor{}, 0); err != nil || len(got) != 800 {
		t.Errorf("read %d entries, %v", len(got), err)
	}
	if w.LastSeq() != 800 {
		t.Errorf("LastSeq = %d", w.LastSeq())
	}
}

// A writer that is killed within a write leaves any part of its line behind.
func TestEventsGoOnAfterACrashAnywhere(t *testing.T) {
	t.Parallel()
	whole := t.TempDir()
	appendAll(t, whole, nil, numbered(3))
	b := readFile(t, whole, rundir.EventsFile)
	for size := range len(b) + 1 {
		dir := t.TempDir()
		writeFile(t, dir, rundir.EventsFile, b[:size])
		before, at, err := rundir.ReadEvents(dir, rundir.Cursor{}, 0)
		if err != nil {
			t.Fatalf("cut at %d: %v", size, err)
		}
		appendAll(t, dir, nil, numbered(1))
		after, _, err := rundir.ReadEvents(dir, at, 0)
		if err != nil || len(after) != 1 || after[0].Seq != int64(len(before))+1 {
			t.Fatalf("cut at %d: after %d entries came %+v, %v", size, len(before), after, err)
		}
	}
}

func TestEventReaderFollowsAWriterThatCrashesAndReturns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r, err := rundir.OpenEventReader(dir, rundir.Cursor{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	wantNext(t, r, 0)
	appendAll(t, dir, nil, numbered(2))
	wantNext(t, r, 2)
	wantNext(t, r, 0)
	torn := append(readFile(t, dir, rundir.EventsFile), `{"seq":3,"content":"never fini`...)
	writeFile(t, dir, rundir.EventsFile, torn)
	wantNext(t, r, 0)
	appendAll(t, dir, nil, numbered(1))
	wantNext(t, r, 1)
}

func TestLongEvents(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	long := strings.Repeat("0123456789abcdef", 1<<16) // larger than all buffers
	stored := appendAll(t, dir, nil, []agent.Entry{{Content: long}, {Content: "short"}, {Content: long + "!"}})
	more := appendAll(t, dir, nil, numbered(1)) // which has to find the end of a long line
	got, _, err := rundir.ReadEvents(dir, rundir.Cursor{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(append(stored, more...), got); diff != "" {
		t.Error("a long entry did not come back as it was stored")
	}
}

func TestAnEventTooLongToBeReadIsNotWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := openEvents(t, dir)
	if _, err := w.Append(agent.Entry{Content: strings.Repeat("x", 64<<20)}, nil); err == nil {
		t.Error("an entry over the limit was taken")
	}
	if e, err := w.Append(agent.Entry{Content: "next"}, nil); err != nil || e.Seq != 1 {
		t.Errorf("the next one: seq %d, %v", e.Seq, err)
	}
}

func TestDamagedEvents(t *testing.T) {
	t.Parallel()
	const first = `{"seq":1,"time":"2026-01-01T00:00:00Z","kind":"system"}` + "\n"
	tests := map[string]struct{ line, want string }{
		"no JSON":  {"garbage\n", "byte 56"},
		"a gap":    {`{"seq":3}` + "\n", "number 3 instead of 2"},
		"a double": {first, "number 1 instead of 2"},
		"empty":    {"\n", "byte 56"},
		"null":     {"null\n", "number 0 instead of 2"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			writeFile(t, dir, rundir.EventsFile, []byte(first+tt.line))
			got, at, err := rundir.ReadEvents(dir, rundir.Cursor{}, 0)
			if len(got) != 1 || at.Seq != 1 {
				t.Errorf("%d entries before the damage, cursor %+v", len(got), at)
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), rundir.EventsFile) {
				t.Errorf("error = %v", err)
			}
		})
	}
}

func TestDamagedLastEventStopsTheWriter(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, dir, rundir.EventsFile, []byte("garbage\n"))
	if _, err := rundir.OpenEvents(dir); err == nil || !strings.Contains(err.Error(), "byte 0") {
		t.Errorf("OpenEvents = %v", err)
	}
}

func TestCursorBeyondTheFileIsAnError(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	appendAll(t, dir, nil, numbered(1))
	if _, _, err := rundir.ReadEvents(dir, rundir.Cursor{Seq: 9, Offset: 1 << 20}, 0); err == nil {
		t.Error("no error")
	}
	if _, _, err := rundir.ReadEvents(dir, rundir.Cursor{Offset: -1}, 0); err == nil {
		t.Error("no error for a negative cursor")
	}
}

func TestEventsAreMasked(t *testing.T) {
	t.Parallel()
	const secret = "line\"1\nline2"
	m := redact.New([]string{secret})
	dir := t.TempDir()
	raw, _ := json.Marshal(map[string]any{secret: []any{secret, 1, nil}})
	stored := appendAll(t, dir, m, []agent.Entry{
		{ID: secret, Content: secret},
		{Tool: &agent.Tool{Name: secret, Input: raw, Path: secret, Diff: secret, Command: secret, Result: string(raw)}},
		{Ask: &agent.Ask{Tool: secret, Input: raw, Questions: []agent.Question{{
			Text: secret, Header: secret, Choices: []agent.Choice{{Label: secret, Description: secret}},
		}}, Decision: &agent.Decision{AskID: secret, Message: secret, ModifiedInput: raw, By: secret, Answers: map[string]string{secret: secret}}}},
		{Status: &agent.Status{SessionRef: secret}, Meta: map[string]any{secret: map[string]any{"deep": []string{secret}}}},
	})
	file := readFile(t, dir, rundir.EventsFile)
	if s := string(file); strings.Contains(s, "line1") || strings.Contains(s, "line2") {
		t.Errorf("the secret is in the file:\n%s", s)
	}
	if n := strings.Count(string(file), redact.Mask); n != 27 {
		t.Errorf("%d masks in\n%s", n, file)
	}
	got, _, err := rundir.ReadEvents(dir, rundir.Cursor{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(stored, got); diff != "" {
		t.Errorf("read (-stored +read):\n%s", diff)
	}
}

// Secrets that look like parts of the format must not break it.
func TestMaskLeavesTheFormatWhole(t *testing.T) {
	t.Parallel()
	m := redact.New([]string{"content", "system", `":"`, "2026", "12345", "kind", "true"})
	dir := t.TempDir()
	given := agent.Entry{
		Kind: agent.KindSystem, Append: true, Content: "content of 2026 is true",
		Time:  time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		Usage: &agent.Usage{InputTokens: 12345},
		Tool:  &agent.Tool{Input: json.RawMessage(`{"pin":12345,"n":12.50,"ok":true,"kind":"x"}`)},
	}
	want := given
	want.Seq, want.Content = 1, "[masked] of [masked] is [masked]"
	want.Tool = &agent.Tool{Input: json.RawMessage(`{"[masked]":"x","n":12.50,"ok":true,"pin":"[masked]"}`)}
	appendAll(t, dir, m, []agent.Entry{given})
	got, _, err := rundir.ReadEvents(dir, rundir.Cursor{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]agent.Entry{want}, got); diff != "" {
		t.Errorf("read (-want +read):\n%s", diff)
	}
	if given.Tool.Input[2] != 'p' || given.Content != "content of 2026 is true" {
		t.Error("the caller's entry was changed")
	}
}

func FuzzReadEvents(f *testing.F) {
	f.Add([]byte(`{"seq":1,"kind":"system"}`+"\n"+`{"seq":2,"content":"x"}`+"\n"+`{"seq":3`), 1)
	f.Add([]byte("\n\n"), 0)
	f.Add([]byte(`{"seq":1}`+"\n"+`{"seq":3}`+"\n"), 2)
	f.Add([]byte(`{"seq":1,"tool":{"input":[1,{"a":null}]},"time":"x"}`+"\n"), 0)
	f.Fuzz(func(t *testing.T, file []byte, limit int) {
		dir := t.TempDir()
		writeFile(t, dir, rundir.EventsFile, file)
		whole, end, err := rundir.ReadEvents(dir, rundir.Cursor{}, 0)
		for i, e := range whole {
			if e.Seq != int64(i)+1 {
				t.Fatalf("entry %d has number %d", i, e.Seq)
			}
		}
		if end.Seq != int64(len(whole)) || end.Offset > 0 && file[end.Offset-1] != '\n' {
			t.Fatalf("%d entries end at %+v", len(whole), end)
		}
		checkBatches(t, dir, limit, end, err)
		if w, openErr := rundir.OpenEvents(dir); openErr == nil {
			defer w.Close()
			if err == nil && w.LastSeq() != end.Seq {
				t.Fatalf("the writer goes on after %d, the reader was at %d", w.LastSeq(), end.Seq)
			}
		} else if err == nil {
			t.Fatalf("what can be read cannot be continued: %v", openErr)
		}
	})
}

// checkBatches reads in batches and must come to the same end.
func checkBatches(t *testing.T, dir string, limit int, end rundir.Cursor, want error) {
	t.Helper()
	r, err := rundir.OpenEventReader(dir, rundir.Cursor{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for {
		batch, at, err := r.Next(limit%100 + 1)
		if err != nil || len(batch) == 0 {
			if at != end || (err == nil) != (want == nil) {
				t.Fatalf("in batches: %+v, %v; at once: %+v, %v", at, err, end, want)
			}
			return
		}
	}
}

func BenchmarkAppendEvent(b *testing.B) {
	w, err := rundir.OpenEvents(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	m := redact.New(secrets())
	e := agent.Entry{Kind: agent.KindAssistant, ID: "m1", Append: true, Content: strings.Repeat("words and words ", 8)}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := w.Append(e, m); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReadEvents(b *testing.B) {
	dir := b.TempDir()
	w, err := rundir.OpenEvents(dir)
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	for range 1000 {
		if _, err := w.Append(agent.Entry{Kind: agent.KindAssistant, Content: strings.Repeat("words and words ", 8)}, nil); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if got, _, err := rundir.ReadEvents(dir, rundir.Cursor{}, 0); err != nil || len(got) != 1000 {
			b.Fatal(len(got), err)
		}
	}
}

func numbered(n int) []agent.Entry {
	entries := make([]agent.Entry, n)
	for i := range entries {
		entries[i] = agent.Entry{Kind: agent.KindAssistant, Content: fmt.Sprintf("entry %d", i)}
	}
	return entries
}

func openEvents(t *testing.T, dir string) *rundir.EventWriter {
	t.Helper()
	w, err := rundir.OpenEvents(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

// appendAll opens the events, appends all entries, and returns them as stored.
func appendAll(t *testing.T, dir string, m *redact.Masker, entries []agent.Entry) []agent.Entry {
	t.Helper()
	w := openEvents(t, dir)
	stored := make([]agent.Entry, len(entries))
	for i, e := range entries {
		var err error
		if stored[i], err = w.Append(e, m); err != nil {
			t.Fatal(err)
		}
	}
	return stored
}

func wantNext(t *testing.T, r *rundir.EventReader, n int) {
	t.Helper()
	if got, _, err := r.Next(0); err != nil || len(got) != n {
		t.Fatalf("Next: %d entries, %v; want %d", len(got), err, n)
	}
}

func readFile(t *testing.T, dir, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func writeFile(t *testing.T, dir, name string, b []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func fileSize(t *testing.T, dir, name string) int64 {
	t.Helper()
	return int64(len(readFile(t, dir, name)))
}

func fileMode(t *testing.T, dir, name string) os.FileMode {
	t.Helper()
	info, err := os.Stat(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode()
}

// secrets returns ten values as they are in the wild.
func secrets() []string {
	all := make([]string, 10)
	for i := range all {
		all[i] = fmt.Sprintf("sk-ant-%d%d%d-Zm9vYmFyYmF6cXV4", i*7919, i*104729, i)
	}
	return all
}
