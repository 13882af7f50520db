package engine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/rundir"
)

func isOver(x engine.Execution) bool { return x.Status.Ended() }

// resumesLimits lets the agent go on after a usage limit, one place for it in all.
func resumesLimits(times int) func(*engine.Catalog) {
	return func(c *engine.Catalog) {
		a := c.Agents["bot"]
		a.OnLimit, a.MaxConcurrent = engine.OnLimit{Resume: true, Max: times}, 1
		c.Agents["bot"] = a
	}
}

// meetsLimit lets a run end with a usage limit that resets after d.
func (f *fixture) meetsLimit(p *player, d time.Duration) {
	resets := f.clock().Add(d)
	p.result <- rundir.Result{
		Status: rundir.Failed, Reason: agent.ReasonAgentLimit, Message: "usage limit", ResetsAt: &resets, SessionRef: "s-1", EndedAt: f.clock(),
	}
}

// following returns the runs of a task that came after the first.
func (f *fixture) following(taskID string) []engine.Execution {
	f.Helper()
	all, _, err := f.e.Executions(f.Context(), engine.Filter{TaskID: taskID})
	if err != nil {
		f.Fatal(err)
	}
	return all[:len(all)-1]
}

// ring makes the engine look at its queue.
func (f *fixture) ring() {
	f.Helper()
	if err := f.e.SetCatalog(f.cat); err != nil {
		f.Fatal(err)
	}
}

func TestLimitParks(t *testing.T) {
	t.Parallel()
	f := newFixture(t, resumesLimits(1))
	x := f.submit(engine.Request{Text: "1"})
	f.meetsLimit(f.started(), time.Hour)
	f.until(x.ID, isOver)
	parked := f.following(x.TaskID)
	if len(parked) != 1 || parked[0].Status != engine.Queued || parked[0].ParentID != x.ID || parked[0].RequestedBy != "tester" || parked[0].Resumes != 1 {
		t.Fatalf("parked: %+v", parked)
	}
	if at := parked[0].NotBefore; at == nil || at.Before(f.clock().Add(time.Hour)) || at.After(f.clock().Add(time.Hour+time.Minute)) {
		t.Errorf("parked until %v", at)
	}
	task, err := f.e.Task(t.Context(), x.TaskID)
	if err != nil || task.Status != engine.InProgress {
		t.Errorf("the task is %s, %v", task.Status, err)
	}
	if _, err := f.e.Resume(t.Context(), x.ID, "now", "tester", false); engine.CodeOf(err) != engine.CodeConflict || !strings.Contains(err.Error(), "parked as #2") {
		t.Errorf("resumed by hand: %v", err)
	}
	f.submit(engine.Request{Text: "behind it"})
	behind := f.started()
	f.stop()
	f.restart()
	f.pass(time.Hour + time.Minute)
	f.ring()
	behind.result <- rundir.Result{Status: rundir.Succeeded, EndedAt: f.clock()}
	p := f.started()
	if p.spec.ExecutionID != parked[0].ID || p.spec.SessionRef != "s-1" || !strings.Contains(p.spec.Prompt, "limit") {
		t.Errorf("went on as %+v", p.spec)
	}
	f.meetsLimit(p, time.Hour) // the second time in a row
	got := f.until(parked[0].ID, isOver)
	if n := len(f.following(x.TaskID)); n != 1 || got.ResetsAt == nil {
		t.Errorf("%d runs followed; it ended as %+v", n, got)
	}
}

func TestParkedIsCancelled(t *testing.T) {
	t.Parallel()
	f := newFixture(t, resumesLimits(1))
	x := f.submit(engine.Request{Text: "1"})
	f.meetsLimit(f.started(), time.Hour)
	f.until(x.ID, isOver)
	parked := f.following(x.TaskID)[0]
	if got, err := f.e.Cancel(t.Context(), parked.ID, "tester", false); err != nil || got.Status != engine.Cancelled {
		t.Errorf("it is %s, %v", got.Status, err)
	}
	if _, err := f.e.Resume(t.Context(), x.ID, "now", "tester", false); err != nil {
		t.Errorf("resumed by hand after that: %v", err)
	}
	if p := f.started(); p.spec.SessionRef != "s-1" {
		t.Errorf("started %+v", p.spec)
	}
}

func TestLimitIsOffered(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*engine.Catalog){"by default": nil, "zero times": resumesLimits(0)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, change)
			x := f.submit(engine.Request{Text: "1"})
			f.meetsLimit(f.started(), time.Hour)
			f.until(x.ID, isOver)
			if n := len(f.following(x.TaskID)); n != 0 {
				t.Errorf("%d runs followed", n)
			}
		})
	}
}

// TestKilledWhileParking kills the service right before, and right after, the moment
// that a limit is noted. The run is parked once either way.
func TestKilledWhileParking(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"before", "after"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, resumesLimits(3))
			f.stop()
			killed := make(chan struct{}, 100)
			f.meddle = &meddler{before: func(c engine.Change) error {
				if c.To != engine.Failed {
					return nil
				}
				if when == "after" {
					if _, err := f.store.Transition(t.Context(), c); err != nil {
						return err
					}
				}
				killed <- struct{}{}
				return errKilled
			}}
			f.restart()
			x := f.submit(engine.Request{Text: "1"})
			p := f.started()
			f.meetsLimit(p, time.Hour)
			<-killed
			f.stop()
			f.meddle = nil
			if when == "before" {
				f.meetsLimit(p, time.Hour) // the result is still there
			}
			f.restart()
			f.until(x.ID, isOver)
			f.stop()
			f.restart()
			if n := len(f.following(x.TaskID)); n != 1 {
				t.Errorf("it is parked %d times", n)
			}
			if len(f.host.started) != 0 {
				t.Error("a parked run was started")
			}
		})
	}
}

// TestCancelledIsNotParked: whoever cancels a run that meets a limit at the same time
// does not want it to go on.
func TestCancelledIsNotParked(t *testing.T) {
	t.Parallel()
	f := newFixture(t, resumesLimits(3))
	x := f.submit(engine.Request{Text: "1"})
	p := f.started()
	if _, err := f.e.Cancel(t.Context(), x.ID, "tester", false); err != nil {
		t.Fatal(err)
	}
	f.meetsLimit(p, time.Hour)
	if got := f.until(x.ID, isOver); got.Status != engine.Cancelled || len(f.following(x.TaskID)) != 0 {
		t.Errorf("it is %s and %d runs followed", got.Status, len(f.following(x.TaskID)))
	}
}
