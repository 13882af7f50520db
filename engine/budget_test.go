package engine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/rundir"
)

// withBudget gives the agent a budget.
func withBudget(b engine.Budget) func(*engine.Catalog) {
	return func(c *engine.Catalog) {
		a := c.Agents["bot"]
		a.Budget = b
		c.Agents["bot"] = a
	}
}

// used is what an agent says to have spent since its start.
func (f *fixture) used(usd float64) agent.Entry {
	return agent.Entry{Kind: agent.KindUsage, Time: f.clock(), Usage: &agent.Usage{InputTokens: 100, OutputTokens: 10, CostUSD: usd}}
}

// told waits until a runner has an order of this kind, and returns it.
func (f *fixture) told(p *player, op rundir.Op) rundir.Command {
	f.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		for _, c := range p.got() {
			if c.Op == op {
				return c
			}
		}
		time.Sleep(time.Millisecond)
	}
	f.Fatalf("the runner was never told to %s: %+v", op, p.got())
	return rundir.Command{}
}

// obeys ends a run as its runner does for a budget.
func (f *fixture) obeys(p *player) engine.Execution {
	f.Helper()
	c := f.told(p, rundir.OpCancel)
	p.result <- rundir.Result{Status: rundir.Failed, Reason: c.Reason, Message: c.Why, EndedAt: f.clock()}
	return f.until(p.spec.ExecutionID, isOver)
}

func (f *fixture) actions(object string) map[string]int {
	f.Helper()
	rows, err := f.e.AuditTrail(f.Context(), engine.AuditFilter{Object: object})
	if err != nil {
		f.Fatal(err)
	}
	out := map[string]int{}
	for _, r := range rows {
		out[r.Action]++
	}
	return out
}

func wantBudgetEnd(t *testing.T, x engine.Execution, says string) {
	t.Helper()
	if x.Status != engine.Failed || x.Reason != agent.ReasonBudget || !strings.Contains(x.Error, says) {
		t.Errorf("#%d ended as %s (%s): %q, want %q", x.Number, x.Status, x.Reason, x.Error, says)
	}
}

func TestRunIsWarnedAndStopped(t *testing.T) {
	t.Parallel()
	f := newFixture(t, withBudget(engine.Budget{PerRunUSD: 1}))
	x := f.submit(engine.Request{Text: "1"})
	p := f.started()
	p.says(f.used(0.79), f.used(0.8), f.used(0.9))
	got := f.until(x.ID, func(x engine.Execution) bool { return x.Budget.Warned })
	if got.Budget.SpentUSD != 0.9 || got.Budget.CapUSD != 1 || !strings.Contains(got.Budget.Warning, "$0.90 of $1.00") {
		t.Errorf("budget %+v", got.Budget)
	}
	p.says(f.used(0.95))
	p.says(f.used(1.2), f.used(1.3))
	f.told(p, rundir.OpCancel)
	if _, err := f.e.ExtendBudget(t.Context(), engine.ExtendRequest{Scope: engine.BudgetRun, ID: x.ID, USD: 1}); engine.CodeOf(err) != engine.CodeConflict {
		t.Errorf("extended while it is stopped: %v", err)
	}
	wantBudgetEnd(t, f.obeys(p), "it has spent $1.30 of $1.00")
	want := map[string]int{"execution.create": 1, "budget.warn": 1, "budget.stop": 1}
	if diff := cmp.Diff(want, f.actions(x.ID)); diff != "" {
		t.Error(diff)
	}
	if next := f.submit(engine.Request{Text: "2"}); next.Budget.CapUSD != 1 || next.Budget.SpentUSD != 0 {
		t.Errorf("the next one has the budget %+v", next.Budget)
	}
}

// TestOverspentWhileAway: the service was killed between an amount and the stop that
// follows from it. The next one stops the run, and says so once.
func TestOverspentWhileAway(t *testing.T) {
	t.Parallel()
	f := newFixture(t, withBudget(engine.Budget{PerRunUSD: 1}))
	x := f.submit(engine.Request{Text: "1"})
	p := f.started()
	p.says(activity(agent.Working))
	f.until(x.ID, func(x engine.Execution) bool { return x.Activity == agent.Working })
	f.stop()
	u := agent.Usage{CostUSD: 2}
	if err := f.store.Commit(t.Context(), engine.Progress{ID: x.ID, Cursor: rundir.Cursor{Seq: 2, Offset: 20}, Usage: &u}); err != nil {
		t.Fatal(err)
	}
	f.restart()
	f.told(p, rundir.OpCancel)
	f.stop()
	f.restart()
	wantBudgetEnd(t, f.obeys(p), "$2.00 of $1.00")
	if n := f.actions(x.ID)["budget.stop"]; n != 1 || len(p.got()) != 1 {
		t.Errorf("stopped %d times; told %+v", n, p.got())
	}
}

// TestOverspentRunnerDies: a runner that is killed while it stops for a budget leaves a
// run that failed for the budget, and that does not go on by itself.
func TestOverspentRunnerDies(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *engine.Catalog) {
		c.OnLost = engine.OnLost{Resume: true, Max: 3}
		withBudget(engine.Budget{PerRunUSD: 1})(c)
	})
	x := f.submit(engine.Request{Text: "1"})
	p := f.started()
	p.says(agent.Entry{Kind: agent.KindStatus, Status: &agent.Status{SessionRef: "s-1"}}, f.used(1))
	f.told(p, rundir.OpCancel)
	close(p.lost)
	wantBudgetEnd(t, f.until(x.ID, isOver), "$1.00 of $1.00")
	if _, total, err := f.e.Executions(t.Context(), engine.Filter{}); err != nil || total != 1 {
		t.Errorf("%d executions, %v", total, err)
	}
}

func TestPersonsCancelWinsOverBudget(t *testing.T) {
	t.Parallel()
	f := newFixture(t, withBudget(engine.Budget{PerRunUSD: 1}))
	x := f.submit(engine.Request{Text: "1"})
	p := f.started()
	p.says(f.used(1))
	why := f.told(p, rundir.OpCancel)
	if _, err := f.e.Cancel(t.Context(), x.ID, "tester", false); err != nil {
		t.Fatal(err)
	}
	p.result <- rundir.Result{Status: rundir.Failed, Reason: why.Reason, Message: why.Why, EndedAt: f.clock()}
	if got := f.until(x.ID, isOver); got.Status != engine.Cancelled || got.Reason != "" {
		t.Errorf("it is %s (%s)", got.Status, got.Reason)
	}
}

// TestUserDay: what a user spends counts over all agents and stops where an agent caps
// it; other users go on, and what waits in the queue does not begin.
func TestUserDay(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *engine.Catalog) {
		c.MaxConcurrent = 3
		a := c.Agents["bot"]
		a.MaxConcurrent, a.Budget.PerUserDayUSD = 0, 10
		c.Agents["bot"] = a
		a.ID, a.Budget = "free", engine.Budget{}
		c.Agents["free"] = a
	})
	free := f.submit(engine.Request{Text: "1", Agent: "free"})
	pFree := f.started()
	capped := f.submit(engine.Request{Text: "2"})
	pCapped := f.started()
	other, _, err := f.e.Submit(t.Context(), engine.Request{Capability: "chat", Text: "3", By: "other"})
	if err != nil {
		t.Fatal(err)
	}
	pOther := f.started()
	waiting := f.submit(engine.Request{Text: "4"})
	pFree.says(f.used(6))
	f.until(free.ID, func(x engine.Execution) bool { return x.Usage.CostUSD == 6 })
	pCapped.says(f.used(4))
	wantBudgetEnd(t, f.obeys(pCapped), "the budget of tester for today")
	wantBudgetEnd(t, f.until(waiting.ID, isOver), "$10.00 of $10.00")
	_, _, err = f.e.Submit(t.Context(), engine.Request{Capability: "chat", Text: "5", By: "tester"})
	if engine.CodeOf(err) != engine.CodeConflict || !strings.Contains(err.Error(), "budget extend user tester") {
		t.Errorf("a new run: %v", err)
	}
	for _, x := range []engine.Execution{free, other} {
		if got, err := f.e.Execution(t.Context(), x.ID); err != nil || got.Status != engine.Running {
			t.Errorf("#%d is %s, %v", x.Number, got.Status, err)
		}
	}
	lines, err := f.e.ExtendBudget(t.Context(), engine.ExtendRequest{Scope: engine.BudgetUser, ID: "tester", USD: 5, By: "boss"})
	if err != nil || len(lines) != 1 || *lines[0].LeftUSD != 5 || lines[0].AgentID != "bot" {
		t.Errorf("extended: %+v, %v", lines, err)
	}
	f.submit(engine.Request{Text: "6"})
	f.started()
	f.pass(24 * time.Hour)
	report, err := f.e.Budget(t.Context())
	if err != nil || len(report.Users) != 0 || len(report.Runs) != 0 {
		t.Errorf("on the next day: %+v, %v", report, err)
	}
	_, _ = capped, pOther
}

// TestBudgetDayHasAZone: what was spent before midnight in the budgets' zone counts for
// the day before, also where both are read at once.
func TestBudgetDayHasAZone(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *engine.Catalog) {
		c.BudgetZone = time.FixedZone("UTC+5", 5*60*60)
		withBudget(engine.Budget{PerDayUSD: 10})(c)
	})
	midnight := time.Date(2126, 3, 1, 19, 0, 0, 0, time.UTC) // in UTC+5
	f.pass(midnight.Add(time.Minute).Sub(f.clock()))
	x := f.submit(engine.Request{Text: "1"})
	p := f.started()
	before, later := f.used(9), f.used(12)
	before.Time, later.Time = midnight.Add(-time.Second), midnight
	p.says(before, later)
	f.until(x.ID, func(x engine.Execution) bool { return x.Usage.CostUSD == 12 })
	report, err := f.e.Budget(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if report.Day != "2126-03-02" || report.Zone != "UTC+5" || report.Agents[0].SpentUSD != 3 || report.Runs[0].SpentUSD != 3 {
		t.Errorf("report %+v", report)
	}
	if got, err := f.e.Execution(t.Context(), x.ID); err != nil || got.Status != engine.Running || len(p.got()) > 0 {
		t.Errorf("it is %s, %v; told %+v", got.Status, err, p.got())
	}
}

func TestExtendRefusals(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	x := f.submit(engine.Request{Text: "1"})
	for name, c := range map[string]struct {
		q    engine.ExtendRequest
		want engine.Code
	}{
		"nothing":            {engine.ExtendRequest{Scope: engine.BudgetRun, ID: x.ID}, engine.CodeInvalid},
		"less than nothing":  {engine.ExtendRequest{Scope: engine.BudgetRun, ID: x.ID, USD: -1}, engine.CodeInvalid},
		"too much":           {engine.ExtendRequest{Scope: engine.BudgetRun, ID: x.ID, USD: 1e9}, engine.CodeInvalid},
		"another scope":      {engine.ExtendRequest{Scope: "team", ID: "a", USD: 1}, engine.CodeInvalid},
		"nobody":             {engine.ExtendRequest{Scope: engine.BudgetUser, USD: 1}, engine.CodeInvalid},
		"no such run":        {engine.ExtendRequest{Scope: engine.BudgetRun, ID: "99", USD: 1}, engine.CodeNotFound},
		"no such agent":      {engine.ExtendRequest{Scope: engine.BudgetAgent, ID: "none", USD: 1}, engine.CodeNotFound},
		"a run without":      {engine.ExtendRequest{Scope: engine.BudgetRun, ID: x.ID, USD: 1}, engine.CodeConflict},
		"an agent without":   {engine.ExtendRequest{Scope: engine.BudgetAgent, ID: "bot", USD: 1}, engine.CodeConflict},
		"no caps for anyone": {engine.ExtendRequest{Scope: engine.BudgetUser, ID: "tester", USD: 1}, engine.CodeConflict},
	} {
		if _, err := f.e.ExtendBudget(t.Context(), c.q); engine.CodeOf(err) != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}
