package host

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/rundir"
)

// written is an execution that was written without a runner.
type written struct {
	dir    string
	events *rundir.EventWriter
	log    *rundir.LogWriter
}

func write(tb testing.TB, r *rig, id string) *written {
	tb.Helper()
	dir := r.path(id)
	if err := rundir.Create(dir, rundir.Spec{ExecutionID: id}); err != nil {
		tb.Fatal(err)
	}
	events, err := rundir.OpenEvents(dir)
	if err != nil {
		tb.Fatal(err)
	}
	log, err := rundir.OpenLog(dir, 0, 0)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _, _ = events.Close(), log.Close() })
	return &written{dir: dir, events: events, log: log}
}

func (w *written) say(tb testing.TB, text string) {
	tb.Helper()
	if _, err := w.events.Append(agent.Entry{Kind: agent.KindAssistant, Content: text}, nil); err != nil {
		tb.Fatal(err)
	}
}

func (w *written) end(tb testing.TB) {
	tb.Helper()
	res := rundir.Result{Version: rundir.Version, Status: rundir.Succeeded, LastSeq: w.events.LastSeq(), LogLines: w.log.Lines()}
	if err := rundir.WriteJSON(filepath.Join(w.dir, rundir.ResultFile), res); err != nil {
		tb.Fatal(err)
	}
}

func open(tb testing.TB, r *rig, id string) engine.Files {
	tb.Helper()
	files, err := r.Files(id)
	if err != nil {
		tb.Fatal(err)
	}
	return files
}

func seqs(entries []agent.Entry) []int64 {
	var all []int64
	for _, e := range entries {
		all = append(all, e.Seq)
	}
	return all
}

func TestEntriesFromAnywhere(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := rundir.NewID()
	w := write(t, r, id)
	const n = 6000
	for i := range n {
		w.say(t, strings.Repeat("x", i%500))
	}
	w.say(t, strings.Repeat("long", markEvery)) // a line that is longer than a block
	w.say(t, "last")
	files := open(t, r, id)
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		after, limit := rnd.Int64N(n+10)-2, 1+rnd.IntN(5)
		var want []int64
		for seq := max(after, 0) + 1; seq <= n+2 && len(want) < limit; seq++ {
			want = append(want, seq)
		}
		got, err := page(t, files, after, limit)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, seqs(got)); diff != "" {
			t.Fatalf("after %d, %d at most (-want +got):\n%s", after, limit, diff)
		}
	}
	if x := r.indexes.get(id); len(x.marks) < 3 {
		t.Errorf("%d marks in %d entries", len(x.marks), n)
	}
}

// page reads one page of entries.
func page(tb testing.TB, files engine.Files, after int64, limit int) ([]agent.Entry, error) {
	tb.Helper()
	reader, err := files.OpenEntries(tb.Context(), after)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	return reader.Next(limit)
}

// TestEntriesAhead reads on after a number that is not there yet.
func TestEntriesAhead(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := rundir.NewID()
	w := write(t, r, id)
	w.say(t, "one")
	reader, err := open(t, r, id).OpenEntries(t.Context(), 3)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	for i, want := range []int{0, 0, 0, 1, 1} {
		if got, err := reader.Next(10); err != nil || len(got) != want {
			t.Errorf("step %d: %d entries, want %d; error %v", i, len(got), want, err)
		}
		w.say(t, "more")
	}
}

func TestEntriesOfATornOrMissingFile(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := rundir.NewID()
	if got, err := page(t, open(t, r, id), 3, 10); err != nil || got != nil {
		t.Errorf("entries of nothing: %v, error %v", got, err)
	}
	w := write(t, r, id)
	w.say(t, "one")
	w.say(t, "two")
	f, err := os.OpenFile(filepath.Join(w.dir, rundir.EventsFile), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"seq":3,"kind":"assi`); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	for after, want := range map[int64]int{0: 2, 1: 1, 2: 0, 3: 0, 100: 0} {
		got, err := page(t, open(t, r, id), after, 10)
		if err != nil || len(got) != want {
			t.Errorf("%d entries after %d, want %d; error %v", len(got), after, want, err)
		}
	}
}

func TestIndexesAreBounded(t *testing.T) {
	t.Parallel()
	var x indexes
	for i := range 10 * maxIndexes {
		x.get(fmt.Sprint(i))
	}
	if len(x.byID) > maxIndexes {
		t.Errorf("%d indexes in memory", len(x.byID))
	}
}

func TestBellRingsForEveryFile(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := rundir.NewID()
	files := open(t, r, id)
	bell, stop := files.Changed() // before there is a directory
	defer stop()
	w := write(t, r, id)
	<-bell
	w.say(t, "one")
	<-bell
	if err := w.log.Write([]byte("[stdout] x\n")); err != nil {
		t.Fatal(err)
	}
	<-bell
	w.end(t)
	<-bell
	log, err := files.OpenLog()
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if b, err := io.ReadAll(log); err != nil || string(b) != "[stdout] x\n" {
		t.Errorf("log %q, error %v", b, err)
	}
	stop()
	stop() // twice is harmless
}

// A page deep in a long file, from a cold start and with marks.
func BenchmarkEntriesDeep(b *testing.B) {
	r := newRig(b, nil)
	id := rundir.NewID()
	w := write(b, r, id)
	for range 100_000 {
		w.say(b, strings.Repeat("x", 200))
	}
	files := open(b, r, id)
	for name, cold := range map[string]bool{"cold": true, "marks": false} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if cold {
					r.indexes.drop(id)
				}
				if got, err := page(b, files, 99_000, 100); err != nil || len(got) != 100 {
					b.Fatal(len(got), err)
				}
			}
		})
	}
}
