package storetest

import (
	"testing"
	"time"

	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/agent"
)

func budgetTests() map[string]func(*testing.T, engine.Store) {
	return map[string]func(*testing.T, engine.Store){
		"each amount counts once":     countsOnce,
		"a run over midnight":         overMidnight,
		"sums are exact":              sumsAreExact,
		"by user and by agent":        spentBy,
		"days are extended":           extendsDays,
		"runs are extended":           extendsRuns,
		"an extension is added once":  extendsOnce,
		"a warning is given once":     warnsOnce,
		"what follows comes with it":  followsWithIt,
		"nothing follows a conflict":  nothingFollows,
		"caps refuse new executions":  capsRefuse,
		"parked ones hold no place":   parkedHoldNoPlace,
		"today outlives its runs":     todayStays,
		"what was long ago goes":      longAgoGoes,
		"parked and capped, as asked": keepsBudget,
	}
}

const today, tomorrow = "2026-03-01", "2026-03-02"

// spends commits that the execution has spent usd in all by now.
func spends(t *testing.T, s engine.Store, e engine.Execution, seq int64, day string, usd float64) {
	t.Helper()
	u := agent.Usage{InputTokens: 10 * seq, OutputTokens: seq, CostUSD: usd}
	commit(t, s, engine.Progress{ID: e.ID, Cursor: at(seq), Usage: &u, Days: []engine.DayUsage{{Day: day, Total: u}}})
}

func daySpent(t *testing.T, s engine.Store, day string) engine.DaySpent {
	t.Helper()
	got, err := s.DaySpent(t.Context(), engine.BudgetDay{Day: day, Who: "slack:U1", AgentID: "claude"})
	if err != nil {
		t.Fatalf("what was spent: %v", err)
	}
	return got
}

func spending(t *testing.T, s engine.Store, day string) engine.Spending {
	t.Helper()
	got, err := s.Spending(t.Context(), day, 2)
	if err != nil {
		t.Fatalf("spending: %v", err)
	}
	return got
}

func extend(t *testing.T, s engine.Store, x engine.Extension) bool {
	t.Helper()
	created, err := s.Extend(t.Context(), x, engine.Audit{At: start(), Actor: x.By, Action: "budget.extend", Object: x.ID, Allowed: true})
	if err != nil {
		t.Fatalf("extend: %v", err)
	}
	return created
}

func countsOnce(t *testing.T, s engine.Store) {
	e := running(t, s)
	spends(t, s, e, 1, today, 0.25)
	spends(t, s, e, 1, today, 0.25) // read again
	spends(t, s, e, 2, today, 1.5)
	u := agent.Usage{InputTokens: 20, OutputTokens: 2, CostUSD: 1.5}
	change(t, s, engine.Change{ID: e.ID, To: engine.Succeeded, At: start(), Usage: &u, Days: []engine.DayUsage{{Day: today, Total: u}}})
	want := engine.Spent{USD: 1.5, Tokens: 22}
	user, claude := want, want
	user.ID, claude.ID = "slack:U1", "claude"
	wantEqual(t, "spent", daySpent(t, s, today), engine.DaySpent{User: user, Agent: claude})
}

func overMidnight(t *testing.T, s engine.Store) {
	e := running(t, s)
	before, later := agent.Usage{OutputTokens: 5, CostUSD: 1}, agent.Usage{OutputTokens: 7, CostUSD: 1.75}
	commit(t, s, engine.Progress{ID: e.ID, Cursor: at(1), Usage: &later, Days: []engine.DayUsage{{Day: today, Total: before}, {Day: tomorrow, Total: later}}})
	end := agent.Usage{OutputTokens: 8, CostUSD: 2}
	change(t, s, engine.Change{ID: e.ID, To: engine.Succeeded, At: start(), Usage: &end, Days: []engine.DayUsage{{Day: tomorrow, Total: end}}})
	wantEqual(t, "today", daySpent(t, s, today).User, engine.Spent{ID: "slack:U1", USD: 1, Tokens: 5})
	wantEqual(t, "tomorrow", daySpent(t, s, tomorrow).User, engine.Spent{ID: "slack:U1", USD: 1, Tokens: 3})
	wantEqual(t, "in all", get(t, s, e.ID).Usage, end)
	f := running(t, s)
	spends(t, s, f, 1, today, 3)
	u := get(t, s, f.ID).Usage
	change(t, s, engine.Change{ID: f.ID, To: engine.Failed, At: start(), Usage: &u, Days: []engine.DayUsage{{Day: "2026-03-03", Total: u}}})
	wantEqual(t, "of a day on which it only ended", spending(t, s, "2026-03-03"), engine.Spending{Users: []engine.Spent{}, Agents: []engine.Spent{}, Runs: []engine.RunSpent{}})
}

func sumsAreExact(t *testing.T, s engine.Store) {
	for range 10 {
		spends(t, s, running(t, s), 1, today, 0.1)
	}
	wantEqual(t, "ten times 0.1", daySpent(t, s, today).User.USD, 1.0)
}

func spentBy(t *testing.T, s engine.Store) {
	other := func(n *engine.NewExecution) { n.Execution.RequestedBy, n.Execution.AgentID = "web", "codex" }
	a, b, c := running(t, s), running(t, s, other), running(t, s)
	spends(t, s, a, 1, today, 1)
	spends(t, s, b, 1, today, 2)
	spends(t, s, c, 1, today, 0.5)
	got := spending(t, s, today)
	wantEqual(t, "users", got.Users, []engine.Spent{{ID: "web", USD: 2, Tokens: 11}, {ID: "slack:U1", USD: 1.5, Tokens: 22}})
	wantEqual(t, "agents", got.Agents, []engine.Spent{{ID: "codex", USD: 2, Tokens: 11}, {ID: "claude", USD: 1.5, Tokens: 22}})
	wantEqual(t, "runs", got.Runs, []engine.RunSpent{
		{ExecutionID: b.ID, Number: b.Number, AgentID: "codex", RequestedBy: "web", SpentUSD: 2, Tokens: 11},
		{ExecutionID: a.ID, Number: a.Number, AgentID: "claude", RequestedBy: "slack:U1", SpentUSD: 1, Tokens: 11},
	})
	wantEqual(t, "tomorrow", len(spending(t, s, tomorrow).Runs), 0)
}

func extendsDays(t *testing.T, s engine.Store) {
	extend(t, s, engine.Extension{Scope: engine.BudgetUser, ID: "slack:U1", Day: today, USD: 5, By: "web"})
	extend(t, s, engine.Extension{Scope: engine.BudgetUser, ID: "slack:U1", Day: today, USD: 0.1, By: "web"})
	extend(t, s, engine.Extension{Scope: engine.BudgetAgent, ID: "claude", Day: today, USD: 2, By: "web"})
	got := daySpent(t, s, today)
	wantEqual(t, "user", got.User, engine.Spent{ID: "slack:U1", ExtendedUSD: 5.1})
	wantEqual(t, "agent", got.Agent, engine.Spent{ID: "claude", ExtendedUSD: 2})
	wantEqual(t, "tomorrow", daySpent(t, s, tomorrow), engine.DaySpent{User: engine.Spent{ID: "slack:U1"}, Agent: engine.Spent{ID: "claude"}})
	wantEqual(t, "all users", spending(t, s, today).Users, []engine.Spent{{ID: "slack:U1", ExtendedUSD: 5.1}})
	wantEqual(t, "audit rows", len(trail(t, s, engine.AuditFilter{Object: "slack:U1"})), 2)
}

func capped(n *engine.NewExecution) { n.Execution.Budget.CapUSD = 2 }

func extendsRuns(t *testing.T, s engine.Store) {
	e := running(t, s, capped)
	spends(t, s, e, 1, today, 1)
	extend(t, s, engine.Extension{Scope: engine.BudgetRun, ID: e.ID, USD: 3, By: "web"})
	wantEqual(t, "budget", get(t, s, e.ID).Budget, engine.RunBudget{SpentUSD: 1, CapUSD: 5, ExtendedUSD: 3})
	for _, x := range []engine.Execution{running(t, s), become(t, s, running(t, s, capped), engine.Succeeded)} {
		_, err := s.Extend(t.Context(), engine.Extension{Scope: engine.BudgetRun, ID: x.ID, USD: 3, Key: "k"}, engine.Audit{Action: "x", Object: x.ID})
		wantCode(t, err, engine.CodeConflict)
		wantEqual(t, "after a refused one", get(t, s, x.ID), x)
	}
	_, err := s.Extend(t.Context(), engine.Extension{Scope: engine.BudgetRun, ID: "nothing", USD: 3}, engine.Audit{})
	wantCode(t, err, engine.CodeNotFound)
	if !extend(t, s, engine.Extension{Scope: engine.BudgetRun, ID: e.ID, USD: 1, Key: "k"}) {
		t.Error("a refused extension used its key up")
	}
}

func extendsOnce(t *testing.T, s engine.Store) {
	e := running(t, s, capped)
	for i := range 2 {
		first := extend(t, s, engine.Extension{Scope: engine.BudgetRun, ID: e.ID, USD: 1, Key: "run"})
		first = extend(t, s, engine.Extension{Scope: engine.BudgetUser, ID: "slack:U1", Day: today, USD: 1, Key: "user"}) && first
		if first != (i == 0) {
			t.Errorf("added the %d. time: %v", i+1, first)
		}
	}
	wantEqual(t, "the run's", get(t, s, e.ID).Budget.CapUSD, 3.0)
	wantEqual(t, "the user's", daySpent(t, s, today).User.ExtendedUSD, 1.0)
	wantEqual(t, "audit rows", len(trail(t, s, engine.AuditFilter{Object: "slack:U1"})), 1)
}

func warnsOnce(t *testing.T, s engine.Store) {
	e, other := running(t, s, capped), running(t, s)
	warn := func(scope engine.BudgetScope, id, agentID, day string, x engine.Execution) bool {
		t.Helper()
		w := engine.BudgetWarning{Scope: scope, ID: id, AgentID: agentID, Day: day, ExecutionID: x.ID, Text: "careful " + id, At: start()}
		first, err := s.Warn(t.Context(), w, engine.Audit{At: start(), Action: "budget.warn", Object: x.ID})
		if err != nil {
			t.Fatal(err)
		}
		return first
	}
	for i := range 2 {
		got := []bool{
			warn(engine.BudgetRun, e.ID, "", "", e), warn(engine.BudgetUser, "slack:U1", "claude", today, other),
			warn(engine.BudgetUser, "slack:U1", "codex", today, other), warn(engine.BudgetUser, "slack:U1", "claude", tomorrow, other),
		}
		wantEqual(t, "first", got, []bool{i == 0, i == 0, i == 0, i == 0})
	}
	wantEqual(t, "on the run", get(t, s, e.ID).Budget, engine.RunBudget{CapUSD: 2, Warned: true, Warning: "careful " + e.ID})
	wantEqual(t, "audit rows", len(trail(t, s, engine.AuditFilter{Object: e.ID})), 2) // and its creation
	wantEqual(t, "of today", len(spending(t, s, today).Warnings), 2)
	wantEqual(t, "tomorrow's", spending(t, s, tomorrow).Warnings, []engine.BudgetWarning{
		{Scope: engine.BudgetUser, ID: "slack:U1", AgentID: "claude", Day: tomorrow, ExecutionID: other.ID, Text: "careful slack:U1", At: start()},
	})
}

func followUp(e engine.Execution) *engine.NewExecution {
	n := request(func(n *engine.NewExecution) {
		n.Task = engine.Task{}
		n.Execution.TaskID, n.Execution.ParentID, n.Execution.NotBefore = e.TaskID, e.ID, new(after(5*time.Hour))
		n.Execution.IdempotencyKey = "resume-" + e.ID
	})
	return &n
}

func followsWithIt(t *testing.T, s engine.Store) {
	e := running(t, s)
	then := followUp(e)
	change(t, s, engine.Change{ID: e.ID, To: engine.Failed, At: after(time.Hour), Reason: agent.ReasonAgentLimit, Then: then})
	want := then.Execution
	want.Number = e.Number + 1
	wantEqual(t, "what follows", get(t, s, want.ID), want)
	wantEqual(t, "the task", task(t, s, e.TaskID).Status, engine.InProgress)
	wantEqual(t, "its audit rows", len(trail(t, s, engine.AuditFilter{Object: want.ID})), 1)
}

func nothingFollows(t *testing.T, s engine.Store) {
	e := become(t, s, running(t, s), engine.Cancelling)
	then := followUp(e)
	_, err := s.Transition(t.Context(), engine.Change{ID: e.ID, To: engine.Failed, At: start(), Then: then})
	wantCode(t, err, engine.CodeConflict)
	_, err = s.Execution(t.Context(), then.Execution.ID)
	wantCode(t, err, engine.CodeNotFound)
}

func capsRefuse(t *testing.T, s engine.Store) {
	caps := func(user, claude float64) func(*engine.NewExecution) {
		return func(n *engine.NewExecution) {
			n.Caps = engine.DayCaps{BudgetDay: engine.BudgetDay{Day: today, Who: "slack:U1", AgentID: "claude"}, UserUSD: user, AgentUSD: claude}
		}
	}
	keyed := func(n *engine.NewExecution) { n.Execution.IdempotencyKey = "same" }
	e := running(t, s, keyed, caps(1, 1))
	spends(t, s, e, 1, today, 1)
	for _, c := range []func(*engine.NewExecution){caps(1, 0), caps(0, 1), caps(0.5, 2)} {
		n := request(c)
		_, _, err := s.CreateExecution(t.Context(), n)
		wantCode(t, err, engine.CodeConflict)
		if _, err := s.Task(t.Context(), n.Task.ID); err == nil {
			t.Error("a refused request left its task")
		}
	}
	queued(t, s, caps(1.01, 1.01))
	if _, created, err := s.CreateExecution(t.Context(), request(keyed, caps(1, 1))); err != nil || created {
		t.Errorf("said again: created %v, %v", created, err)
	}
	extend(t, s, engine.Extension{Scope: engine.BudgetUser, ID: "slack:U1", Day: today, USD: 1})
	queued(t, s, caps(1, 0))
}

func parkedHoldNoPlace(t *testing.T, s engine.Store) {
	limited := func(n *engine.NewExecution) { n.RejectAt = 1 }
	queued(t, s, func(n *engine.NewExecution) { n.Execution.NotBefore = new(after(time.Hour)) })
	queued(t, s, limited)
	_, _, err := s.CreateExecution(t.Context(), request(limited))
	wantCode(t, err, engine.CodeConflict)
}

func todayStays(t *testing.T, s engine.Store) {
	e := running(t, s)
	spends(t, s, e, 1, today, 1)
	change(t, s, engine.Change{ID: e.ID, To: engine.Succeeded, At: start()})
	filesGone(t, s, e.ID)
	wantEqual(t, "deleted", forget(t, s, after(time.Hour)), 1)
	wantEqual(t, "spent", daySpent(t, s, today).User.USD, 1.0)
	wantEqual(t, "runs", spending(t, s, today).Runs, []engine.RunSpent{{ExecutionID: e.ID, AgentID: "claude", RequestedBy: "slack:U1", SpentUSD: 1, Tokens: 11}})
}

func longAgoGoes(t *testing.T, s engine.Store) {
	e, live := running(t, s), running(t, s)
	spends(t, s, e, 1, today, 1)
	spends(t, s, live, 1, today, 2)
	change(t, s, engine.Change{ID: e.ID, To: engine.Succeeded, At: start()})
	extend(t, s, engine.Extension{Scope: engine.BudgetUser, ID: "slack:U1", Day: today, USD: 1, At: start()})
	filesGone(t, s, e.ID)
	forget(t, s, after(72*time.Hour))
	wantEqual(t, "left", daySpent(t, s, today).User, engine.Spent{ID: "slack:U1", USD: 2, Tokens: 11})
}

func keepsBudget(t *testing.T, s engine.Store) {
	n := request(func(n *engine.NewExecution) {
		n.Execution.NotBefore = new(after(time.Hour))
		n.Execution.Budget = engine.RunBudget{CapUSD: 2.5, CapTokens: 1000}
		n.Execution.Resumes = 1
	})
	got, _, err := s.CreateExecution(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	want := n.Execution
	want.Number = got.Number
	wantEqual(t, "as created", got, want)
	wantEqual(t, "as read", get(t, s, got.ID), want)
}
