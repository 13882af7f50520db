package engine_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/rundir"
)

// errKilled is what a store says from the moment on at which a test kills the service.
var errKilled = errors.New("the service was killed here")

// meddler is a store that lets a test step between the engine and its database.
type meddler struct {
	engine.Store

	before func(engine.Change) error // nil: nothing
	after  func(engine.Change)       // nil: nothing
}

func (m *meddler) Transition(ctx context.Context, c engine.Change) (engine.Execution, error) {
	if m.before != nil {
		if err := m.before(c); err != nil {
			return engine.Execution{}, err
		}
	}
	x, err := m.Store.Transition(ctx, c)
	if err == nil && m.after != nil {
		m.after(c)
	}
	return x, err
}

// TestResumedOnce: a service that is killed before a lost run is called so leaves it to
// the next one, which resumes it, and only once.
func TestResumedOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *engine.Catalog) {
		c.OnLost = engine.OnLost{Resume: true, Max: 3}
		a := c.Agents["bot"]
		a.OnBusy, a.MaxConcurrent = engine.BusyReject, 1
		c.Agents["bot"] = a
	})
	f.stop()
	killed := make(chan struct{}, 100)
	f.meddle = &meddler{before: func(c engine.Change) error {
		if c.To != engine.Failed {
			return nil
		}
		killed <- struct{}{}
		return errKilled
	}}
	f.restart()
	x := f.submit(engine.Request{Text: "1"})
	p := f.started()
	p.says(agent.Entry{Kind: agent.KindStatus, Status: &agent.Status{SessionRef: "s-1"}})
	close(p.lost)
	<-killed
	f.stop()
	f.meddle = nil
	f.restart()
	f.until(x.ID, is(engine.Failed))
	child := f.started()
	child.result <- rundir.Result{Status: rundir.Succeeded, EndedAt: f.clock()}
	f.until(child.spec.ExecutionID, is(engine.Succeeded))
	if _, total, err := f.e.Executions(t.Context(), engine.Filter{TaskID: x.TaskID}); err != nil || total != 2 {
		t.Errorf("%d executions, %v", total, err)
	}
}

// TestCancelIsCarriedThrough: the database fails between the two halves of the cancel of
// a queued execution. It ends all the same, with nothing started.
func TestCancelIsCarriedThrough(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *engine.Catalog) { c.MaxConcurrent = 1 })
	f.stop()
	var once sync.Once
	f.meddle = &meddler{before: func(c engine.Change) (err error) {
		if c.To == engine.Cancelled {
			once.Do(func() { err = errKilled })
		}
		return err
	}}
	f.restart()
	f.submit(engine.Request{Text: "1"})
	f.started()
	x := f.submit(engine.Request{Text: "2"})
	if got, err := f.e.Cancel(t.Context(), x.ID, "tester", false); err != nil || got.Status != engine.Cancelling {
		t.Errorf("it is %s, %v", got.Status, err)
	}
	f.until(x.ID, is(engine.Cancelled))
	if len(f.host.started) != 0 {
		t.Error("it was started")
	}
}
