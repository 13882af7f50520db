package host

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/proc"
	"github.com/threadmill/threadmill/engine/rundir"
)

// rig is a host with a tmux server of its own, both gone with the test.
type rig struct {
	*Host

	tb  testing.TB
	ids []string
}

func newRig(tb testing.TB, change func(*Options)) *rig {
	tb.Helper()
	path, err := exec.LookPath("tmux")
	if err != nil {
		tb.Fatal("tmux is needed; `make test` installs it, or: apt-get install tmux")
	}
	base, err := os.MkdirTemp("", "tm") //nolint:usetesting // TempDir's paths are too long for sockets
	if err != nil {
		tb.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	o := Options{Binary: self, Data: tb.TempDir(), RunDir: filepath.Join(base, "run"), TmuxPath: path, Logger: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&o)
	}
	h, err := New(o)
	if err != nil {
		tb.Fatal(err)
	}
	r := &rig{Host: h, tb: tb}
	tb.Cleanup(func() {
		for _, id := range r.ids {
			if _, err := h.Kill(background(), id); err != nil {
				tb.Error(err)
			}
		}
		r.ask("kill-server")
		if err := h.Close(); err != nil {
			tb.Error(err)
		}
		_ = os.RemoveAll(base)
	})
	return r
}

// ask asks the tmux server from outside.
func (r *rig) ask(words ...string) string {
	server := r.tmux()
	if server == nil {
		return ""
	}
	out, _ := exec.CommandContext(background(), server.Path(), append([]string{"-S", server.Socket()}, words...)...).CombinedOutput()
	return strings.TrimSpace(string(out))
}

func (r *rig) newSpec(argv ...string) rundir.Spec {
	id := rundir.NewID()
	r.ids = append(r.ids, id)
	return rundir.Spec{ExecutionID: id, Number: int64(len(r.ids)), Title: "test", Argv: argv}
}

func (r *rig) launch(argv ...string) (id string, l engine.Launched) {
	r.tb.Helper()
	spec := r.newSpec(argv...)
	l, err := r.Launch(r.tb.Context(), spec, rundir.Secrets{Env: []string{"A=b"}})
	if err != nil {
		r.tb.Fatal(err)
	}
	return spec.ExecutionID, l
}

func (r *rig) path(id string, name ...string) string {
	r.tb.Helper()
	dir, err := r.dir(id)
	if err != nil {
		r.tb.Fatal(err)
	}
	return filepath.Join(append([]string{dir}, name...)...)
}

// started waits until the runner has said who it is.
func (r *rig) started(id string) rundir.Info {
	r.tb.Helper()
	var info rundir.Info
	eventually(r.tb, "the runner starts", func() (ok bool) {
		info, ok, _ = rundir.ReadInfo(r.path(id))
		return ok
	})
	return info
}

// cancel ends a run. Its reply may be lost with the runner.
func (r *rig) cancel(id string) {
	r.tb.Helper()
	_, err := r.Do(r.tb.Context(), id, rundir.Command{ID: "cancel", Op: rundir.OpCancel})
	if err != nil && !errors.Is(err, engine.ErrRunnerLost) {
		r.tb.Error(err)
	}
}

// noted counts the lines of one of the test runner's notes.
func (r *rig) noted(id, name string) int {
	b, _ := os.ReadFile(r.path(id, name))
	return strings.Count(string(b), "\n")
}

func eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	deadline := time.Now().Add(60 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			tb.Fatalf("never: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// book is a sink that takes each entry exactly once, as a store would.
type book struct {
	texts  []string
	cursor rundir.Cursor
	last   engine.Batch
	fail   func() bool // refuse this batch
}

var errRefused = errors.New("refused")

func (b *book) sink(_ context.Context, batch engine.Batch) error {
	if b.fail != nil && b.fail() {
		return errRefused
	}
	for _, e := range batch.Entries {
		if e.Seq != int64(len(b.texts))+1 {
			return errors.New("entry " + strconv.FormatInt(e.Seq, 10) + " after " + strconv.Itoa(len(b.texts)))
		}
		b.texts = append(b.texts, e.Content)
	}
	b.cursor, b.last = batch.Cursor, batch
	return nil
}

func (b *book) counted(tb testing.TB, n int) {
	tb.Helper()
	want := make([]string, n)
	for i := range want {
		want[i] = strconv.Itoa(i + 1)
	}
	if diff := cmp.Diff(want, b.texts); diff != "" {
		tb.Errorf("entries (-want +got):\n%s", diff)
	}
}

func TestRunFromLaunchToResult(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id, l := r.launch("count", "300", "1ms")
	if l.TmuxSession != "tm-"+id || l.Notice != "" {
		t.Errorf("launched %+v", l)
	}
	var b book
	res, err := r.Follow(t.Context(), id, rundir.Cursor{}, b.sink)
	if err != nil {
		t.Fatal(err)
	}
	b.counted(t, 300)
	if res.Status != rundir.Succeeded || res.LastSeq != 300 || res.LogLines != 300 {
		t.Errorf("result %+v", res)
	}
	files, err := r.Files(id)
	if err != nil {
		t.Fatal(err)
	}
	if tail, err := files.Tail(2); err != nil || !cmp.Equal(tail, []string{"[stdout] 299", "[stdout] 300"}) {
		t.Errorf("tail %q, error %v", tail, err)
	}
	if left, err := os.ReadDir(r.o.RunDir); err != nil || strings.Contains(names(left), ".env") {
		t.Errorf("secrets are left: %v, error %v", left, err)
	}
	if info := r.started(id); !info.Pane {
		t.Error("the runner had no terminal")
	}
	again, err := r.Launch(t.Context(), rundir.Spec{ExecutionID: id, Argv: []string{"die"}}, rundir.Secrets{})
	if err != nil || again.TmuxSession != l.TmuxSession || r.noted(id, "starts") != 1 {
		t.Errorf("launched again: %+v, error %v, starts %d", again, err, r.noted(id, "starts"))
	}
}

func names(entries []os.DirEntry) string {
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return strings.Join(all, " ")
}

func TestEachEntryOnceWhereverTheFollowerStops(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id, _ := r.launch("count", "2000", "200us")
	rnd := rand.New(rand.NewPCG(1, 2))
	b := book{fail: func() bool { return rnd.IntN(6) == 0 }}
	for restarts := 0; ; restarts++ {
		res, err := r.Follow(t.Context(), id, b.cursor, b.sink)
		if errors.Is(err, errRefused) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if res.LastSeq != 2000 || restarts == 0 {
			t.Errorf("result %+v after %d restarts", res, restarts)
		}
		break
	}
	b.counted(t, 2000)
}

func TestManyLaunchesMakeOneRunner(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	spec := r.newSpec("count", "50", "1ms")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := r.Launch(t.Context(), spec, rundir.Secrets{}); err != nil {
				t.Error(err)
			}
			if err := r.detached([]string{r.o.Binary, "runner", "--dir", r.path(spec.ExecutionID)}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	var b book
	if _, err := r.Follow(t.Context(), spec.ExecutionID, rundir.Cursor{}, b.sink); err != nil {
		t.Fatal(err)
	}
	b.counted(t, 50)
	if n := r.noted(spec.ExecutionID, "starts"); n != 1 {
		t.Errorf("%d runners started", n)
	}
	eventually(t, "the secrets of the repeated launches go", func() bool {
		left, err := os.ReadDir(r.o.RunDir)
		return err == nil && !strings.Contains(names(left), ".env")
	})
}

func TestLostRunner(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	dies, _ := r.launch("die")
	var b book
	if _, err := r.Follow(t.Context(), dies, rundir.Cursor{}, b.sink); !errors.Is(err, engine.ErrRunnerLost) || len(b.texts) != 3 {
		t.Errorf("error %v after %d entries", err, len(b.texts))
	}
	killed, _ := r.launch("serve")
	info := r.started(killed)
	followed := make(chan error, 1)
	go func() {
		_, err := r.Follow(t.Context(), killed, rundir.Cursor{}, new(book).sink)
		followed <- err
	}()
	if err := syscall.Kill(info.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := <-followed; !errors.Is(err, engine.ErrRunnerLost) {
		t.Errorf("error %v", err)
	}
	eventually(t, "only the files are left", func() bool {
		s, err := r.Inspect(t.Context(), killed)
		return err == nil && s == engine.Sighting{Spec: true, Info: true}
	})
	if _, err := r.Do(t.Context(), killed, rundir.Command{ID: "1", Op: rundir.OpPing}); !errors.Is(err, engine.ErrRunnerLost) {
		t.Errorf("a command to a dead runner: %v", err)
	}
}

func TestRunnerThatNeverStarts(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.bounds.start = 10 * time.Millisecond
	spec := r.newSpec("serve")
	if err := rundir.Create(r.path(spec.ExecutionID), spec); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Follow(t.Context(), spec.ExecutionID, rundir.Cursor{}, new(book).sink); !errors.Is(err, engine.ErrRunnerLost) {
		t.Errorf("error %v", err)
	}
	if _, err := r.Do(t.Context(), spec.ExecutionID, rundir.Command{ID: "1"}); !errors.Is(err, errNotStarted) {
		t.Errorf("a command before the start: %v", err)
	}
}

func TestKillFindsRunaways(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id, _ := r.launch("tree")
	info := r.started(id)
	target := proc.Target{ExecutionID: id, Root: info.Pid}
	eventually(t, "a child and a runaway", func() bool {
		_, err := os.Stat(filepath.Join(r.path(id), "grown"))
		return err == nil
	})
	if n, err := proc.Find(target); err != nil || n != 2 {
		t.Fatalf("%d processes, %v", n, err)
	}
	k, err := r.Kill(t.Context(), id)
	if err != nil || k.Left != 0 || k.Ended != 3 {
		t.Errorf("killed %+v, error %v", k, err)
	}
	if n, err := proc.Find(target); err != nil || n != 0 || proc.Alive(info.Pid, info.StartTime) {
		t.Errorf("%d are left, the runner lives: %v, error %v", n, proc.Alive(info.Pid, info.StartTime), err)
	}
	if k, err := r.Kill(t.Context(), id); err != nil || k != (engine.Killed{}) {
		t.Errorf("killed again: %+v, error %v", k, err)
	}
}

func TestKilledBeforeItsStartNeverStarts(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	spec := r.newSpec("serve")
	dir := r.path(spec.ExecutionID)
	if err := rundir.Create(dir, spec); err != nil {
		t.Fatal(err)
	}
	if k, err := r.Kill(t.Context(), spec.ExecutionID); err != nil || k != (engine.Killed{}) {
		t.Errorf("killed %+v, error %v", k, err)
	}
	late := exec.CommandContext(t.Context(), r.o.Binary, "runner", "--dir", dir)
	if out, err := late.CombinedOutput(); err != nil || r.noted(spec.ExecutionID, "starts") != 0 {
		t.Errorf("the late runner: %s, error %v", out, err)
	}
	if _, err := r.Follow(t.Context(), spec.ExecutionID, rundir.Cursor{}, new(book).sink); !errors.Is(err, engine.ErrRunnerLost) {
		t.Errorf("error %v", err)
	}
	if _, err := r.Kill(t.Context(), rundir.NewID()); err != nil {
		t.Errorf("kill what never was: %v", err)
	}
}

func TestRunOutlivesTheTmuxServer(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.bounds.panes = 50 * time.Millisecond
	id, _ := r.launch("serve")
	r.started(id)
	pid, err := strconv.Atoi(r.ask("display-message", "-p", "#{pid}"))
	if err != nil {
		t.Fatal(err)
	}
	var b book
	followed := make(chan error, 1)
	go func() {
		_, err := r.Follow(t.Context(), id, rundir.Cursor{}, b.sink)
		followed <- err
	}()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a new pane shows the run", func() bool { return r.noted(id, "views") == 1 })
	for i := range 3 {
		cmd := rundir.Command{ID: strconv.Itoa(i), Op: rundir.OpMessage, Message: &agent.Message{Text: strconv.Itoa(i + 1)}}
		if reply, err := r.Do(t.Context(), id, cmd); err != nil || !reply.OK {
			t.Fatalf("reply %+v, error %v", reply, err)
		}
	}
	if s, err := r.Inspect(t.Context(), id); err != nil || s.Pane == "" || !s.Alive || !s.Answer {
		t.Errorf("sighting %+v, error %v", s, err)
	}
	r.cancel(id)
	if err := <-followed; err != nil {
		t.Error(err)
	}
	b.counted(t, 3)
	if n := r.noted(id, "views"); n != 1 {
		t.Errorf("%d new panes", n)
	}
}

func TestRunWithoutTmux(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options) { o.TmuxPath, o.Path = "", "/nowhere:relative:" })
	id, l := r.launch("count", "20", "1ms")
	if l.TmuxSession != "" || !strings.Contains(l.Notice, "not installed") {
		t.Errorf("launched %+v", l)
	}
	var b book
	if _, err := r.Follow(t.Context(), id, rundir.Cursor{}, b.sink); err != nil {
		t.Fatal(err)
	}
	b.counted(t, 20)
	eventually(t, "the runner is collected", func() bool {
		r.children.mu.Lock()
		defer r.children.mu.Unlock()
		return len(r.children.pids) == 0
	})
	if _, err := r.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "install") {
		t.Errorf("check: %v", err)
	}
	if _, ok := r.AttachArgv(id, true); ok {
		t.Error("there is something to attach to")
	}
}

func TestRunWhileTmuxIsStopped(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	eventually(t, "tmux answers", func() bool {
		_, err := r.Check(t.Context())
		return err == nil
	})
	pid, err := strconv.Atoi(r.ask("display-message", "-p", "#{pid}"))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var resume sync.Once
	wake := func() { resume.Do(func() { _ = syscall.Kill(pid, syscall.SIGCONT) }) }
	defer wake()
	id, l := r.launch("count", "20", "1ms")
	if l.TmuxSession != "" || !strings.Contains(l.Notice, "tmux does not work") {
		t.Errorf("launched %+v", l)
	}
	var b book
	if _, err := r.Follow(t.Context(), id, rundir.Cursor{}, b.sink); err != nil {
		t.Fatal(err)
	}
	b.counted(t, 20)
	wake() // what it was asked before is now done, too late
	r.ask("list-sessions")
	if n := r.noted(id, "starts"); n != 1 {
		t.Errorf("%d runners started", n)
	}
}

func TestCommandsAreDeliveredOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id, _ := r.launch("serve")
	r.started(id)
	first := rundir.Command{ID: "a", Op: rundir.OpMessage, Message: &agent.Message{Text: "1"}}
	for range 2 {
		if reply, err := r.Do(t.Context(), id, first); err != nil || !reply.OK {
			t.Fatalf("reply %+v, error %v", reply, err)
		}
	}
	// Carried out without a reply over the connection that is open: asked again over a
	// new one, the runner knows the id.
	lost := rundir.Command{ID: "b", Op: rundir.OpMessage, Message: &agent.Message{Text: "hang up"}}
	if reply, err := r.Do(t.Context(), id, lost); err != nil || !reply.OK {
		t.Fatalf("reply %+v, error %v", reply, err)
	}
	r.cancel(id)
	var b book
	if _, err := r.Follow(t.Context(), id, rundir.Cursor{}, b.sink); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"1", "hang up"}, b.texts); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	if _, err := r.Do(t.Context(), id, first); !errors.Is(err, engine.ErrRunnerLost) {
		t.Errorf("a command after the end: %v", err)
	}
}

func TestInspect(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := rundir.NewID()
	look := func(want engine.Sighting) {
		t.Helper()
		got, err := r.Inspect(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if got.Result != nil {
			got.Result = &rundir.Result{}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("sighting (-want +got):\n%s", diff)
		}
	}
	look(engine.Sighting{})
	id, _ = r.launch("serve")
	r.started(id)
	look(engine.Sighting{Spec: true, Info: true, Alive: true, Answer: true, Pane: "tm-" + id})
	r.cancel(id)
	if _, err := r.Follow(t.Context(), id, rundir.Cursor{}, new(book).sink); err != nil {
		t.Fatal(err)
	}
	look(engine.Sighting{Result: &rundir.Result{}, Spec: true})
	if _, err := r.Inspect(t.Context(), "../../etc"); err == nil {
		t.Error("an id that is none was taken")
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	detail, err := r.Check(t.Context())
	if err != nil || !strings.Contains(detail, "tmux ") {
		t.Errorf("check: %q, error %v", detail, err)
	}
	argv, ok := r.AttachArgv("x", true)
	if !ok || argv[len(argv)-1] != "-r" {
		t.Errorf("attach by %q", argv)
	}
	if err := os.RemoveAll(r.o.RunDir); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Check(t.Context()); err == nil {
		t.Error("a missing run directory is not noticed")
	}
}

func TestFailedLaunchLeavesNoSecrets(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options) { o.TmuxPath = "/nowhere/tmux" })
	r.o.Binary = "/nowhere/threadmill"
	if _, err := r.Launch(t.Context(), r.newSpec("serve"), rundir.Secrets{Env: []string{"TOKEN=x"}}); err == nil {
		t.Error("a missing binary was started")
	}
	if left, err := os.ReadDir(r.o.RunDir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, error %v", left, err)
	}
}
