package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/rundir"
)

// run is a live execution as this process pursues it: everything in here can be
// found again from the store and the files.
type run struct {
	id     string
	number int64
	dir    string        // where it works
	orders bell          // commands wait for delivery
	done   chan struct{} // closed when nobody pursues it any more
	fresh  bool          // claimed a moment ago by this process: nothing of it can be there yet

	mu      sync.Mutex
	pending Progress // read, without an effect, not committed yet
	stored  time.Time

	spent     atomic.Bool // it has spent something that was not held against the budgets yet
	asked     atomic.Bool // it has asked for something that was not held against the rules yet
	overspent atomic.Bool // it was told to stop because a budget is used up
}

const (
	maxLaunches  = 3                      // attempts to start a runner
	lazyCommit   = 2 * time.Second        // how long entries without an effect may stay uncommitted
	waitForStart = 100 * time.Millisecond // between looks at a runner that is starting
	retryPause   = time.Second            // after an error of the store or the host
)

// register makes an execution one that this process pursues; nil where it is already.
func (e *Engine) register(x Execution) *run {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.live[x.ID] != nil {
		return nil
	}
	r := &run{id: x.ID, number: x.Number, dir: x.Dir, orders: newBell(), done: make(chan struct{}), pending: Progress{ID: x.ID, Cursor: x.Cursor}}
	e.live[x.ID] = r
	return r
}

func (e *Engine) unregister(r *run) {
	e.mu.Lock()
	delete(e.live, r.id)
	e.mu.Unlock()
	close(r.done)
}

// begin follows a registered live execution to its end, in the background.
func (e *Engine) begin(r *run, x Execution) {
	e.wg.Go(func() {
		defer e.forget(r)
		e.see(e.work, r, x)
	})
	e.wg.Go(func() { e.deliver(e.work, r) })
	if x.Status == Cancelling {
		e.insist(r, cancelPatience)
	}
}

func (e *Engine) forget(r *run) {
	e.unregister(r)
	e.watchers.ring(r.id)
	e.bell.ring() // its place is free
}

// see brings one execution to its end: it looks, decides, acts, and looks again.
func (e *Engine) see(ctx context.Context, r *run, x Execution) {
	for launches := 0; ctx.Err() == nil; {
		act, s, err := e.look(ctx, r, x)
		if err == nil {
			switch act {
			case ActWait:
				pause(ctx, waitForStart)
			case ActLaunch:
				launches++
				err = e.launch(ctx, r, x, launches)
			case ActFollow, ActFinalise: // what a run has left is read before it is settled
				err = e.follow(ctx, r, s)
			case ActLost:
				err = e.lost(ctx, r)
			case ActDrop:
				err = e.drop(ctx, r.id)
			}
		}
		if err == nil {
			if x, err = e.store.Execution(ctx, r.id); err == nil && x.Status.Ended() {
				return
			}
		}
		if err != nil && ctx.Err() == nil {
			e.log.ErrorContext(ctx, "an execution could not be pursued; trying again", "execution", r.id, "number", r.number, "error", err)
			pause(ctx, retryPause)
		}
	}
}

// look inspects an execution and decides. A fresh one is launched without looking.
func (e *Engine) look(ctx context.Context, r *run, x Execution) (Action, Sighting, error) {
	if r.fresh {
		r.fresh = false
		return ActLaunch, Sighting{}, nil
	}
	s, err := e.host.Inspect(ctx, x.ID)
	if err != nil {
		return "", s, err
	}
	begun := x.Cursor.Seq > 0 || x.Pid > 0
	return Decide(x.Status, begun, s), s, nil
}

// launch starts the runner and follows it. What is missing by now (a directory, an
// agent) fails the execution; nothing was started then.
func (e *Engine) launch(ctx context.Context, r *run, x Execution, attempt int) error {
	if attempt > maxLaunches {
		return e.giveUp(ctx, r.id, agent.ReasonRunnerLost, "the runner could not be started; see the service's log and `threadmill doctor`")
	}
	spec, secrets, err := e.prepare(x)
	if err != nil {
		return e.giveUp(ctx, r.id, agent.ReasonNotFound, err.Error())
	}
	launched, err := e.host.Launch(ctx, spec, secrets)
	if err != nil {
		return err
	}
	if launched.Notice != "" {
		e.log.WarnContext(ctx, "started without a terminal", "execution", r.id, "number", r.number, "notice", launched.Notice)
	}
	return e.follow(ctx, r, Sighting{Pane: launched.TmuxSession})
}

// follow reads what the run does until it has ended, and settles it.
func (e *Engine) follow(ctx context.Context, r *run, s Sighting) error {
	r.mu.Lock()
	r.pending.Tmux = s.Pane
	from := r.pending.Cursor
	r.mu.Unlock()
	if s.Pane != "" {
		if err := e.flush(ctx, r); err != nil {
			return err
		}
	}
	if s.Info { // asks may have been open while the service was away
		if err := e.applyRules(ctx, ApprovalFilter{ExecutionID: r.id}); err != nil {
			return err
		}
	}
	res, err := e.host.Follow(ctx, r.id, from, func(ctx context.Context, b Batch) error { return e.absorb(ctx, r, b) })
	lost := errors.Is(err, ErrRunnerLost)
	if err != nil && !lost {
		return err
	}
	if err := e.flush(ctx, r); err != nil || lost {
		return err // lost: look again, the decision is made in one place
	}
	return e.finish(ctx, r.id, changeFor(res))
}

// absorb takes a batch of new entries: what has an effect is committed at once, the
// rest with the next that has, or after a while.
func (e *Engine) absorb(ctx context.Context, r *run, b Batch) error {
	r.mu.Lock()
	r.pending.add(b, e.catalog.Load().day)
	if r.pending.Usage != nil {
		r.spent.Store(true)
	}
	quiet := r.pending.Empty() && e.now().Sub(r.stored) < lazyCommit
	r.mu.Unlock()
	if quiet {
		return nil
	}
	return e.flush(ctx, r)
}

// flush commits what was read so far, and then acts on what it says.
func (e *Engine) flush(ctx context.Context, r *run) error {
	if err := e.commit(ctx, r); err != nil {
		return err
	}
	if err := e.answerByRule(ctx, r); err != nil {
		return err
	}
	if !r.spent.Swap(false) {
		return nil
	}
	if err := e.checkSpending(ctx, r); err != nil {
		r.spent.Store(true)
		return fmt.Errorf("check the budgets of #%d: %w", r.number, err)
	}
	return nil
}

func (e *Engine) commit(ctx context.Context, r *run) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	open := r.rateAsks()
	if err := e.store.Commit(ctx, r.pending); err != nil {
		return fmt.Errorf("commit the progress of #%d: %w", r.number, err)
	}
	if open {
		r.asked.Store(true)
	}
	idle := r.pending.Activity == agent.Idle
	r.pending = Progress{ID: r.id, Cursor: r.pending.Cursor}
	r.stored = e.now()
	e.watchers.ring(r.id)
	if idle {
		e.bell.ring() // it may have to make room
	}
	return nil
}

// add merges the effect of a batch into p; day tells on which day of the budgets a
// moment is.
func (p *Progress) add(b Batch, day func(time.Time) string) {
	for _, en := range b.Entries {
		p.addEntry(en)
		if en.Kind == agent.KindUsage && en.Usage != nil {
			p.addUsage(*en.Usage, day(en.Time))
		}
	}
	p.Cursor, p.LogBytes, p.LogLines = b.Cursor, b.LogBytes, b.LogLines
}

func (p *Progress) addEntry(en agent.Entry) {
	switch en.Kind {
	case agent.KindStatus:
		p.addStatus(en.Status)
	case agent.KindUser:
		if en.ID != "" {
			p.Handed = append(p.Handed, en.ID)
		}
	case agent.KindApproval, agent.KindQuestion:
		if en.Ask != nil {
			p.Asks = append(p.Asks, approvalOf(p.ID, en))
		}
	case agent.KindUsage:
		// addUsage
	case agent.KindSystem, agent.KindAssistant, agent.KindThinking, agent.KindToolUse, agent.KindError:
		// only shown
	}
}

// addUsage keeps the last total of each day.
func (p *Progress) addUsage(total agent.Usage, day string) {
	p.Usage = &total
	if n := len(p.Days); n > 0 && p.Days[n-1].Day == day {
		p.Days[n-1].Total = total
		return
	}
	p.Days = append(p.Days, DayUsage{Day: day, Total: total})
}

func (p *Progress) addStatus(s *agent.Status) {
	if s == nil {
		return
	}
	if s.Activity != "" {
		p.Activity = s.Activity
		p.Worked = p.Worked || s.Activity != agent.Idle
	}
	if s.SessionRef != "" {
		p.Session = s.SessionRef
	}
	if s.Pid != 0 {
		p.Pid = s.Pid
	}
}

func approvalOf(executionID string, en agent.Entry) Approval {
	a := Approval{
		ID: rundir.NewID(), ExecutionID: executionID, AskID: en.ID, Kind: en.Kind, Text: en.Content,
		Ask: *en.Ask, State: en.Ask.State, Decision: en.Ask.Decision, CreatedAt: en.Time,
	}
	if a.State != agent.AskOpen {
		at := en.Time
		a.DecidedAt = &at
	}
	return a
}
