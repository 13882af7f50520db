package host

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/fsnotify/fsnotify"
	"github.com/google/go-cmp/cmp"

	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/proc"
	"github.com/threadmill/threadmill/engine/rundir"
)

// An overflow of the system's queue says that something was lost, not what.
func TestOverflowLooksAtEverything(t *testing.T) {
	t.Parallel()
	w := newWatcher(slog.New(slog.DiscardHandler), func() {})
	defer w.close()
	var bells []*bell
	for range 3 {
		b, stop := w.watch(t.TempDir())
		defer stop()
		b.take()
		bells = append(bells, b)
	}
	w.fault(fsnotify.ErrEventOverflow)
	for i, b := range bells {
		<-b.ring
		if got := b.take(); got&newsEvents == 0 || got&newsResult == 0 || got&newsPoll == 0 {
			t.Errorf("bell %d has news %b", i, got)
		}
	}
}

func TestBellTellsWhatIsNew(t *testing.T) {
	t.Parallel()
	got := map[string]news{}
	for _, name := range []string{rundir.EventsFile, rundir.LogFile, rundir.ResultFile, rundir.InfoFile, rundir.WireFile, rundir.CastFile, ".result.json.123"} {
		got[name] = meaning(name)
	}
	want := map[string]news{
		rundir.EventsFile: newsEvents, rundir.LogFile: newsLog, rundir.ResultFile: newsResult, rundir.InfoFile: newsResult,
		rundir.WireFile: 0, rundir.CastFile: 0, ".result.json.123": 0,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("news (-want +got):\n%s", diff)
	}
}

// Notifications may be missing altogether: the poll alone finds everything.
func TestFollowWithoutNotifications(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.watcher.mu.Lock()
	system := r.watcher.fs
	r.watcher.mu.Unlock()
	if err := system.Close(); err != nil {
		t.Fatal(err)
	}
	id, _ := r.launch("count", "30", "10ms")
	var b book
	if _, err := r.Follow(t.Context(), id, rundir.Cursor{}, b.sink); err != nil {
		t.Fatal(err)
	}
	b.counted(t, 30)
}

// alive makes a written execution look as if this process were its runner.
func (w *written) alive(tb testing.TB) {
	tb.Helper()
	began, err := proc.StartTime(os.Getpid())
	if err != nil {
		tb.Fatal(err)
	}
	info := rundir.Info{Version: rundir.Version, Pid: os.Getpid(), StartTime: began}
	if err := rundir.WriteJSON(filepath.Join(w.dir, rundir.InfoFile), info); err != nil {
		tb.Fatal(err)
	}
}

func TestFollowTwoHundred(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	const runs, entries = 200, 30
	var following sync.WaitGroup
	all := make([]*written, runs)
	books := make([]book, runs)
	for i := range runs {
		id := rundir.NewID()
		all[i] = write(t, r, id)
		all[i].alive(t)
		following.Go(func() {
			if res, err := r.Follow(t.Context(), id, rundir.Cursor{}, books[i].sink); err != nil || res.LastSeq != entries {
				t.Errorf("result %+v, error %v", res, err)
			}
		})
	}
	for n := range entries {
		for _, w := range all {
			w.say(t, strconv.Itoa(n+1))
		}
	}
	for _, w := range all {
		w.end(t)
	}
	following.Wait()
	for i := range books {
		books[i].counted(t, entries)
	}
}

func TestFollowTellsHowTheLogGrows(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := rundir.NewID()
	w := write(t, r, id)
	w.alive(t)
	told := make(chan engine.Batch, 100)
	sink := func(_ context.Context, b engine.Batch) error {
		told <- b
		return nil
	}
	over := make(chan error, 1)
	go func() {
		_, err := r.Follow(t.Context(), id, rundir.Cursor{}, sink)
		over <- err
	}()
	if err := w.log.Write([]byte("[stdout] one\n[stdout] two\n")); err != nil {
		t.Fatal(err)
	}
	if b := <-told; len(b.Entries) != 0 || b.LogBytes != w.log.Bytes() || b.LogLines != 2 {
		t.Errorf("told of %+v", b)
	}
	w.say(t, "x")
	if b := <-told; len(b.Entries) != 1 || b.LogLines != 2 {
		t.Errorf("told of %+v", b)
	}
	w.end(t)
	if err := <-over; err != nil {
		t.Error(err)
	}
}

// An events file that was damaged must not keep the run from ending.
func TestDamagedEntriesDoNotHoldTheEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := rundir.NewID()
	w := write(t, r, id)
	w.alive(t)
	w.say(t, "1")
	f, err := os.OpenFile(filepath.Join(w.dir, rundir.EventsFile), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("not an entry\n"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	var b book
	if _, err := r.Follow(t.Context(), id, rundir.Cursor{}, b.sink); err == nil {
		t.Error("damage in the entries of a live run is not reported")
	}
	w.end(t)
	if _, err := r.Follow(t.Context(), id, b.cursor, b.sink); err != nil {
		t.Error(err)
	}
	b.counted(t, 1)
	refuses := book{fail: func() bool { return true }}
	if _, err := r.Follow(t.Context(), id, rundir.Cursor{}, refuses.sink); !errors.Is(err, errRefused) {
		t.Errorf("the sink's error at the end: %v", err)
	}
}

// A follower may start before anything is there, and does not mistake a pid that was
// used again for its runner.
func TestPidOfAnother(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := rundir.NewID()
	w := write(t, r, id)
	w.say(t, "1")
	info := rundir.Info{Version: rundir.Version, Pid: os.Getpid(), StartTime: "1"}
	if err := rundir.WriteJSON(filepath.Join(w.dir, rundir.InfoFile), info); err != nil {
		t.Fatal(err)
	}
	var b book
	if _, err := r.Follow(t.Context(), id, rundir.Cursor{}, b.sink); !errors.Is(err, engine.ErrRunnerLost) {
		t.Errorf("error %v", err)
	}
	b.counted(t, 1)
	if k, err := r.Kill(t.Context(), id); err != nil || k.Ended != 0 {
		t.Errorf("killed %+v, error %v", k, err)
	}
}
