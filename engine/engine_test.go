package engine_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/rundir"
	"github.com/threadmill/threadmill/storage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// talker is an adapter that can do everything and is never started: the scripted
// host plays its runs.
type talker struct{}

func (talker) Traits() agent.Traits {
	return agent.Traits{Messages: true, Interrupt: true, Resume: true, Fork: true, Approvals: true}
}

func (talker) Check(context.Context, agent.Job) agent.Availability {
	return agent.Availability{OK: true}
}

func (talker) Start(context.Context, agent.Job, agent.Runtime) (agent.Session, error) {
	return nil, errors.New("played by the host")
}

// fixture is an engine on a real store with a scripted host.
type fixture struct {
	*testing.T

	e     *engine.Engine
	store *storage.DB
	host  *scriptedHost
	cat   engine.Catalog

	meddle *meddler // between engine and store; may be nil

	mu  sync.Mutex
	now time.Time
}

func newFixture(t *testing.T, change func(*engine.Catalog)) *fixture {
	t.Helper()
	db, err := storage.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{T: t, store: db, host: newScriptedHost(), now: time.Now()}
	dir := t.TempDir()
	f.cat = engine.Catalog{
		AllowedDirs:  []string{dir},
		Agents:       map[string]engine.Agent{"bot": {ID: "bot", Adapter: "talker", WorkingDir: dir, MaxConcurrent: 2, OnBusy: engine.BusyQueue, IdleTimeout: time.Minute}},
		Capabilities: map[string]engine.Capability{"chat": {ID: "chat", Label: "Chat", AgentID: "bot", Mode: engine.ModePrompt}},
	}
	if change != nil {
		change(&f.cat)
	}
	f.restart()
	t.Cleanup(func() {
		f.stop()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// restart is what a killed service does next: a new engine on the same store.
func (f *fixture) restart() {
	f.Helper()
	var store engine.Store = f.store
	if f.meddle != nil {
		f.meddle.Store = f.store
		store = f.meddle
	}
	f.e = engine.New(engine.Options{
		Store: store, Host: f.host, Adapters: map[string]agent.Adapter{"talker": talker{}},
		Environ: map[string]string{"PATH": "/usr/bin:/bin"}, Logger: slog.New(slog.DiscardHandler), Now: f.clock,
	})
	if err := f.e.SetCatalog(f.cat); err != nil {
		f.Fatal(err)
	}
	if err := f.e.Start(f.Context()); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) stop() {
	f.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := f.e.Stop(ctx); err != nil {
		f.Error(err)
	}
}

func (f *fixture) clock() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

func (f *fixture) pass(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
}

func (f *fixture) submit(q engine.Request) engine.Execution {
	f.Helper()
	if q.Capability == "" {
		q.Capability = "chat"
	}
	q.By = "tester"
	x, _, err := f.e.Submit(f.Context(), q)
	if err != nil {
		f.Fatal(err)
	}
	return x
}

// started waits for the next runner to be launched.
func (f *fixture) started() *player {
	f.Helper()
	select {
	case p := <-f.host.started:
		return p
	case <-time.After(time.Minute):
		f.Fatal("no runner was launched")
		return nil
	}
}

// until waits until an execution is as wanted, by the engine's own bell.
func (f *fixture) until(id string, wanted func(engine.Execution) bool) engine.Execution {
	f.Helper()
	bell, stop := f.e.Watch(id)
	defer stop()
	deadline := time.After(time.Minute)
	for {
		x, err := f.e.Execution(f.Context(), id)
		if err != nil {
			f.Fatal(err)
		}
		if wanted(x) {
			return x
		}
		select {
		case <-bell:
		case <-time.After(20 * time.Millisecond): // a change right before Watch
		case <-deadline:
			f.Fatalf("#%d is still %s (%s)", x.Number, x.Status, x.Activity)
		}
	}
}

func is(s engine.Status) func(engine.Execution) bool {
	return func(x engine.Execution) bool { return x.Status == s }
}

func activity(a agent.Activity) agent.Entry {
	return agent.Entry{Kind: agent.KindStatus, Status: &agent.Status{Activity: a}}
}

func TestRunToEnd(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	x := f.submit(engine.Request{Text: "hello"})
	p := f.started()
	if p.spec.Prompt != "hello" || p.spec.ExecutionID != x.ID {
		t.Errorf("the runner got %+v", p.spec)
	}
	p.says(agent.Entry{Kind: agent.KindStatus, Status: &agent.Status{Pid: 4711, SessionRef: "s-1", Activity: agent.Working}})
	got := f.until(x.ID, func(x engine.Execution) bool { return x.Pid == 4711 })
	if got.SessionRef != "s-1" || got.TmuxSession == "" || got.StartedAt == nil {
		t.Errorf("running: %+v", got)
	}
	code := 0
	p.result <- rundir.Result{Status: rundir.Succeeded, ExitCode: &code, EndedAt: f.clock(), Usage: agent.Usage{CostUSD: 1}, LogLines: 3}
	got = f.until(x.ID, is(engine.Succeeded))
	task, err := f.e.Task(t.Context(), x.TaskID)
	if err != nil {
		t.Fatal(err)
	}
	if task.Status != engine.Review || len(task.Tail) != 1 || got.Usage.CostUSD != 1 || got.LogLineCount != 3 {
		t.Errorf("ended: %+v, task %+v", got, task)
	}
}

func TestQueueAndIdle(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	first, second, third := f.submit(engine.Request{Text: "1"}), f.submit(engine.Request{Text: "2"}), f.submit(engine.Request{Text: "3"})
	p1, p2 := f.started(), f.started()
	if p1.spec.ExecutionID != first.ID {
		p1, p2 = p2, p1
	}
	if x, _ := f.e.Execution(t.Context(), third.ID); x.Status != engine.Queued {
		t.Fatalf("the third is %s", x.Status)
	}
	p2.says(activity(agent.Idle))
	f.until(second.ID, func(engine.Execution) bool { return len(p2.got()) == 1 })
	if got := p2.got()[0]; got.Op != rundir.OpEnd {
		t.Fatalf("the idle one was told %v", got.Op)
	}
	p2.result <- rundir.Result{Status: rundir.Succeeded, EndedAt: f.clock()}
	if p3 := f.started(); p3.spec.ExecutionID != third.ID {
		t.Errorf("started %s", p3.spec.ExecutionID)
	}
	if len(p1.got()) != 0 {
		t.Errorf("the working one was told %v", p1.got())
	}
}

func TestReject(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *engine.Catalog) {
		a := c.Agents["bot"]
		a.OnBusy, a.MaxConcurrent = engine.BusyReject, 1
		c.Agents["bot"] = a
	})
	f.submit(engine.Request{Text: "1"})
	_, _, err := f.e.Submit(t.Context(), engine.Request{Capability: "chat", Text: "2", By: "tester"})
	if engine.CodeOf(err) != engine.CodeConflict {
		t.Errorf("the second got %v", err)
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *engine.Catalog) { c.MaxConcurrent = 1 })
	x, waiting := f.submit(engine.Request{Text: "1"}), f.submit(engine.Request{Text: "2"})
	p := f.started()
	got, err := f.e.Cancel(t.Context(), waiting.ID, "tester", false)
	if err != nil || got.Status != engine.Cancelled {
		t.Errorf("a queued one is %s, %v", got.Status, err)
	}
	if got, err = f.e.Cancel(t.Context(), x.ID, "tester", false); err != nil || got.Status != engine.Cancelling {
		t.Fatalf("a running one is %s, %v", got.Status, err)
	}
	f.until(x.ID, func(engine.Execution) bool { return len(p.got()) == 1 })
	if order := p.got()[0]; order.Op != rundir.OpCancel || order.By != "tester" {
		t.Errorf("the runner was told %+v", order)
	}
	p.result <- rundir.Result{Status: rundir.Succeeded, EndedAt: f.clock(), Ended: 3} // it ended by itself at the same moment
	if got = f.until(x.ID, func(x engine.Execution) bool { return x.Status.Ended() }); got.Status != engine.Cancelled || got.Ended != 3 {
		t.Errorf("it ended as %s, %d processes", got.Status, got.Ended)
	}
	if _, err := f.e.Cancel(t.Context(), x.ID, "tester", true); engine.CodeOf(err) != engine.CodeConflict {
		t.Errorf("cancelling an ended one: %v", err)
	}
}

func TestCancelThatTheRunnerIgnores(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	x := f.submit(engine.Request{Text: "1"})
	p := f.started()
	p.mu.Lock()
	p.refuse = func(rundir.Command) (rundir.Reply, error) { return rundir.Reply{}, errors.New("no answer") }
	p.mu.Unlock()
	if _, err := f.e.Cancel(t.Context(), x.ID, "tester", true); err != nil {
		t.Fatal(err)
	}
	if got := f.until(x.ID, func(x engine.Execution) bool { return x.Status.Ended() }); got.Status != engine.Cancelled || p.killed == 0 {
		t.Errorf("it ended as %s, killed %d times", got.Status, p.killed)
	}
}

func TestMessageIsDeliveredOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	x := f.submit(engine.Request{Text: "1"})
	p := f.started()
	p.says(activity(agent.Working))
	calls := 0
	p.mu.Lock()
	p.refuse = func(c rundir.Command) (rundir.Reply, error) {
		if calls++; c.Op == rundir.OpMessage && calls < 4 {
			return rundir.Reply{}, errors.New("connection reset") // the outcome is unknown
		}
		return rundir.Reply{}, nil
	}
	p.mu.Unlock()
	for range 3 { // said again by somebody who got no answer
		if _, err := f.e.Send(t.Context(), x.ID, engine.MessageRequest{ID: "m-1", Text: "more", By: "tester"}); err != nil {
			t.Fatal(err)
		}
	}
	f.until(x.ID, func(engine.Execution) bool { return len(p.got()) == 1 })
	p.says(agent.Entry{Kind: agent.KindUser, ID: "m-1", Content: "more"})
	f.until(x.ID, func(engine.Execution) bool {
		all, err := f.e.Commands(t.Context(), x.ID)
		return err == nil && len(all) == 1 && all[0].State == engine.Handed
	})
	if got := p.got(); len(got) != 1 || got[0].Message.Text != "more" {
		t.Errorf("the runner was told %+v", got)
	}
}

func TestDecideOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	x := f.submit(engine.Request{Text: "1"})
	p := f.started()
	p.says(agent.Entry{Kind: agent.KindApproval, ID: "ask-1", Content: "run `ls`?", Ask: &agent.Ask{State: agent.AskOpen, Tool: "Bash"}}, activity(agent.Approval))
	f.until(x.ID, func(x engine.Execution) bool { return x.Activity == agent.Approval })
	open, err := f.e.Approvals(t.Context(), engine.ApprovalFilter{OpenOnly: true})
	if err != nil || len(open) != 1 {
		t.Fatalf("open: %+v, %v", open, err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	won := 0
	for _, who := range []string{"ann", "bob", "cleo"} {
		wg.Go(func() {
			_, err := f.e.Decide(t.Context(), open[0].ID, agent.Decision{Allow: who == "ann", By: who}, nil)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				won++
			} else if engine.CodeOf(err) != engine.CodeConflict {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if won != 1 || len(p.got()) != 1 || p.got()[0].Decision.AskID != "ask-1" {
		t.Errorf("%d won; the runner was told %+v", won, p.got())
	}
}

func TestLostIsResumedWithinBounds(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *engine.Catalog) { c.OnLost = engine.OnLost{Resume: true, Max: 2} })
	x := f.submit(engine.Request{Text: "1"})
	for range 3 {
		p := f.started()
		p.says(agent.Entry{Kind: agent.KindStatus, Status: &agent.Status{SessionRef: "s-1"}})
		f.until(p.spec.ExecutionID, func(x engine.Execution) bool { return x.SessionRef == "s-1" })
		close(p.lost)
		got := f.until(p.spec.ExecutionID, func(x engine.Execution) bool { return x.Status.Ended() })
		if got.Status != engine.Failed || got.Reason != agent.ReasonRunnerLost {
			t.Errorf("#%d ended as %s (%s)", got.Number, got.Status, got.Reason)
		}
	}
	f.stop()
	all, total, err := f.e.Executions(t.Context(), engine.Filter{TaskID: x.TaskID})
	if err != nil || total != 3 || all[0].ParentID != all[1].ID || all[1].ParentID != x.ID {
		t.Errorf("%d executions: %+v, %v", total, all, err)
	}
}

func TestRestartFollowsAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	x := f.submit(engine.Request{Text: "1"})
	p := f.started()
	p.says(activity(agent.Working))
	f.until(x.ID, func(x engine.Execution) bool { return x.Activity == agent.Working })
	f.stop()
	p.result <- rundir.Result{Status: rundir.TimedOut, EndedAt: f.clock()}
	f.restart()
	f.until(x.ID, is(engine.TimedOut))
	if len(f.host.started) != 0 {
		t.Error("it was launched twice")
	}
}

// TestEndWhileAway: what a run did last, while there was no service, acts as it would
// have done otherwise. A message that the agent has is not called undelivered.
func TestEndWhileAway(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	x := f.submit(engine.Request{Text: "1"})
	p := f.started()
	p.says(activity(agent.Working))
	f.until(x.ID, func(x engine.Execution) bool { return x.Activity == agent.Working })
	if _, err := f.e.Send(t.Context(), x.ID, engine.MessageRequest{ID: "m-1", Text: "more", By: "tester"}); err != nil {
		t.Fatal(err)
	}
	f.stop()
	denied := agent.Ask{State: agent.AskTimedOut, Tool: "Bash"}
	p.endsUnseen(rundir.Result{Status: rundir.Succeeded, EndedAt: f.clock()},
		agent.Entry{Kind: agent.KindUser, ID: "m-1", Content: "more"},
		agent.Entry{Kind: agent.KindApproval, ID: "ask-1", Content: "run `ls`?", Ask: &denied},
		agent.Entry{Kind: agent.KindStatus, Status: &agent.Status{SessionRef: "s-2"}})
	f.restart()
	if got := f.until(x.ID, is(engine.Succeeded)); got.SessionRef != "s-2" || got.Cursor.Seq != 4 {
		t.Errorf("it ended as %+v", got)
	}
	if list, err := f.e.Commands(t.Context(), x.ID); err != nil || len(list) != 1 || list[0].State != engine.Handed {
		t.Errorf("the message is %+v, %v", list, err)
	}
	if list, err := f.e.Approvals(t.Context(), engine.ApprovalFilter{}); err != nil || len(list) != 1 || list[0].State != agent.AskTimedOut {
		t.Errorf("the ask is %+v, %v", list, err)
	}
}

// TestLostWhileAway: the same for a runner that was killed while there was no service;
// its session, which it had just named, is resumed.
func TestLostWhileAway(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *engine.Catalog) { c.OnLost = engine.OnLost{Resume: true, Max: 1} })
	x := f.submit(engine.Request{Text: "1"})
	p := f.started()
	p.says(activity(agent.Working))
	f.until(x.ID, func(x engine.Execution) bool { return x.Activity == agent.Working })
	f.stop()
	p.unseen = []agent.Entry{{Seq: 2, Kind: agent.KindStatus, Status: &agent.Status{SessionRef: "s-1"}}}
	p.seq++
	close(p.lost)
	f.restart()
	if got := f.until(x.ID, is(engine.Failed)); got.Reason != agent.ReasonRunnerLost || got.SessionRef != "s-1" {
		t.Errorf("it ended as %+v", got)
	}
	if next := f.started(); next.spec.SessionRef != "s-1" {
		t.Errorf("resumed is %+v", next.spec)
	}
}

// TestCancelAtTheStart: a cancel that comes between the claim and the start is as
// insistent as any other.
func TestCancelAtTheStart(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.stop()
	f.meddle = &meddler{after: func(c engine.Change) {
		if c.To != engine.Running {
			return
		}
		if _, err := f.e.Cancel(t.Context(), c.ID, "tester", true); err != nil {
			t.Error(err)
		}
	}}
	f.restart()
	x := f.submit(engine.Request{Text: "1"})
	p := f.started()
	p.deaf()
	if got := f.until(x.ID, func(x engine.Execution) bool { return x.Status.Ended() }); got.Status != engine.Cancelled {
		t.Errorf("it ended as %s", got.Status)
	}
}

// TestIdleAnew: an idle one that was just given a message refuses to end; once it is
// idle again it is told again, however short its turn was.
func TestIdleAnew(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *engine.Catalog) { c.MaxConcurrent = 1 })
	first, second := f.submit(engine.Request{Text: "1"}), f.submit(engine.Request{Text: "2"})
	p := f.started()
	p.refuses(rundir.OpEnd)
	p.says(activity(agent.Idle))
	f.until(first.ID, func(engine.Execution) bool { return len(p.got()) == 1 })
	p.refuses("")
	p.says(activity(agent.Working), activity(agent.Idle))
	f.until(first.ID, func(engine.Execution) bool { return len(p.got()) == 2 })
	p.result <- rundir.Result{Status: rundir.Succeeded, EndedAt: f.clock()}
	if next := f.started(); next.spec.ExecutionID != second.ID {
		t.Errorf("started %s", next.spec.ExecutionID)
	}
}

func TestStopMayCancel(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *engine.Catalog) { c.CancelOnStop = true })
	x := f.submit(engine.Request{Text: "1"})
	p := f.started()
	p.says(activity(agent.Working))
	go func() { // the runner does as it is told
		for len(p.got()) == 0 {
			time.Sleep(time.Millisecond)
		}
		p.result <- rundir.Result{Status: rundir.Cancelled, EndedAt: f.clock()}
	}()
	f.stop()
	if got, err := f.e.Execution(t.Context(), x.ID); err != nil || got.Status != engine.Cancelled {
		t.Errorf("it is %s, %v", got.Status, err)
	}
}

func TestRetention(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *engine.Catalog) {
		c.Retention = engine.Retention{Logs: time.Hour, Executions: 24 * time.Hour}
	})
	x := f.submit(engine.Request{Text: "1"})
	f.started().result <- rundir.Result{Status: rundir.Succeeded, EndedAt: f.clock()}
	f.until(x.ID, is(engine.Succeeded))
	retain := func() {
		t.Helper()
		if err := f.e.Retain(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	retain()
	if len(f.host.removed) != 0 {
		t.Fatal("files were removed too early")
	}
	f.pass(2 * time.Hour)
	retain()
	if got, err := f.e.Execution(t.Context(), x.ID); err != nil || !got.LogsDeleted || len(f.host.removed) != 1 {
		t.Fatalf("%+v, %v, removed %v", got, err, f.host.removed)
	}
	if _, err := f.e.Files(t.Context(), x.ID); engine.CodeOf(err) != engine.CodeNotFound {
		t.Errorf("files of it: %v", err)
	}
	f.pass(24 * time.Hour)
	retain()
	if _, err := f.e.Execution(t.Context(), x.ID); engine.CodeOf(err) != engine.CodeNotFound {
		t.Errorf("the row: %v", err)
	}
}

// TestRetentionGoesOn: one directory that cannot be removed does not keep the others.
func TestRetentionGoesOn(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *engine.Catalog) { c.Retention = engine.Retention{Executions: time.Hour} })
	stuck, x := f.submit(engine.Request{Text: "1"}), f.submit(engine.Request{Text: "2"})
	f.host.stuck = stuck.ID
	for range 2 {
		f.started().result <- rundir.Result{Status: rundir.Succeeded, EndedAt: f.clock()}
	}
	f.until(stuck.ID, is(engine.Succeeded))
	f.until(x.ID, is(engine.Succeeded))
	f.pass(2 * time.Hour)
	if err := f.e.Retain(t.Context()); err == nil {
		t.Error("it does not say that something is left")
	}
	if _, err := f.e.Execution(t.Context(), x.ID); engine.CodeOf(err) != engine.CodeNotFound {
		t.Errorf("the other row: %v", err)
	}
	if got, err := f.e.Execution(t.Context(), stuck.ID); err != nil || got.LogsDeleted {
		t.Errorf("the stuck row: %+v, %v", got, err)
	}
}
