package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/proc"
	"github.com/threadmill/threadmill/engine/rundir"
)

// launchReal launches the project's own runner with a command.
func (r *rig) launchReal(argv ...string) string {
	r.tb.Helper()
	spec := r.newSpec(append([]string{r.o.Binary}, argv...)...)
	spec.Adapter, spec.Dir = "command", r.tb.TempDir()
	env := []string{"PATH=" + os.Getenv("PATH"), mark(spec.ExecutionID)}
	if _, err := r.Launch(r.tb.Context(), spec, rundir.Secrets{Env: env}); err != nil {
		r.tb.Fatal(err)
	}
	return spec.ExecutionID
}

// numbers is the log of a shout up to n, without what the runner says itself.
func (r *rig) numbers(id string) []string {
	r.tb.Helper()
	b, err := os.ReadFile(r.path(id, rundir.LogFile))
	if err != nil {
		r.tb.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(b)) {
		if n, ok := strings.CutPrefix(strings.TrimSpace(line), "[stdout] "); ok {
			got = append(got, n)
		}
	}
	return got
}

func upTo(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = strconv.Itoa(i + 1)
	}
	return all
}

func TestRealRunOutlivesServiceAndTmux(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.bounds.panes = 50 * time.Millisecond
	id := r.launchReal("shout", "3000")
	info := r.started(id)
	pid, err := strconv.Atoi(r.ask("display-message", "-p", "#{pid}"))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	next, err := New(r.o) // the service after a restart
	if err != nil {
		t.Fatal(err)
	}
	next.bounds = r.bounds
	defer next.Close()
	if s, err := next.Inspect(t.Context(), id); err != nil || !s.Info || !s.Alive {
		t.Errorf("sighting %+v, error %v", s, err)
	}
	var b book
	res, err := next.Follow(t.Context(), id, rundir.Cursor{}, b.sink)
	if err != nil || res.Status != rundir.Succeeded || res.LastSeq != int64(len(b.texts)) {
		t.Errorf("result %+v after %d entries, error %v", res, len(b.texts), err)
	}
	if diff := cmp.Diff(upTo(3000), r.numbers(id)); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
	if n := r.noted(id, "views"); n != 1 {
		t.Errorf("%d new panes", n)
	}
	eventually(t, "the runner ends", func() bool { return !proc.Alive(info.Pid, info.StartTime) })
}

func TestRealRunnerKilled(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := r.launchReal("fork", "none")
	if res, err := r.Follow(t.Context(), id, rundir.Cursor{}, new(book).sink); err != nil || res.Left != 0 {
		t.Errorf("result %+v, error %v", res, err)
	}
	id = r.launchReal("shout", "1000000")
	info := r.started(id)
	eventually(t, "the agent runs", func() bool {
		n, err := proc.Find(proc.Target{ExecutionID: id})
		return err == nil && n == 1
	})
	if err := syscall.Kill(info.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Follow(t.Context(), id, rundir.Cursor{}, new(book).sink); !errors.Is(err, engine.ErrRunnerLost) {
		t.Errorf("error %v", err)
	}
	if k, err := r.Kill(t.Context(), id); err != nil || k.Left != 0 {
		t.Errorf("killed %+v, error %v", k, err)
	}
	if n, err := proc.Find(proc.Target{ExecutionID: id}); err != nil || n != 0 {
		t.Errorf("%d processes are left, error %v", n, err)
	}
}

// The program that a pane gives the runner has nothing of ours around it.
func TestRealRunnerHasAnEmptyEnvironment(t *testing.T) {
	t.Setenv("THREADMILL_TEST_MARKER", "marker-value")
	r := newRig(t, nil)
	id := r.launchReal("shout", "100000")
	info := r.started(id)
	pid, err := strconv.Atoi(r.ask("display-message", "-p", "#{pid}"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []int{info.Pid, pid} {
		b, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(p), "environ"))
		if errors.Is(err, os.ErrNotExist) {
			t.Skip("this system shows no environments of processes")
		}
		if err != nil || strings.Contains(string(b), "marker-value") || strings.Contains(string(b), "HOME=") {
			t.Errorf("the environment of %d: %q, error %v", p, b, err)
		}
	}
}
