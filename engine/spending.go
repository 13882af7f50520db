package engine

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/rundir"
)

// topRuns is how many runs a report of budgets names.
const topRuns = 10

// maxExtension is the most dollars that are added at once: more is a slip of the hand.
const maxExtension = 100_000

// zone is where the calendar days of budgets are.
func (c *catalog) zone() *time.Location {
	if c.BudgetZone == nil {
		return time.UTC
	}
	return c.BudgetZone
}

// day is the calendar day of budgets that t is on.
func (c *catalog) day(t time.Time) string { return t.In(c.zone()).Format(time.DateOnly) }

// capsOf is what may be spent today on behalf of a user with an agent.
func (c *catalog) capsOf(agentID, who string, now time.Time) DayCaps {
	b := c.Agents[agentID].Budget
	return DayCaps{
		BudgetDay: BudgetDay{Day: c.day(now), Who: who, AgentID: agentID}, Zone: c.zone().String(),
		UserUSD: b.PerUserDayUSD, AgentUSD: b.PerDayUSD,
	}
}

// runBudget is the budget of a new execution.
func (b Budget) runBudget() RunBudget {
	return RunBudget{CapUSD: b.PerRunUSD, CapTokens: b.PerRunTokens}
}

// line is the execution's own budget.
func (x Execution) line() BudgetLine {
	return BudgetLine{
		Scope: BudgetRun, ID: x.ID, CapUSD: x.Budget.CapUSD, ExtendedUSD: x.Budget.ExtendedUSD, SpentUSD: x.Usage.CostUSD,
		CapTokens: x.Budget.CapTokens, Tokens: x.Usage.InputTokens + x.Usage.OutputTokens, Warned: x.Budget.Warned,
	}
}

// dayOver returns the first budget of today that is used up for an execution.
func (e *Engine) dayOver(ctx context.Context, x Execution) (BudgetLine, bool, error) {
	caps := e.catalog.Load().capsOf(x.AgentID, x.RequestedBy, e.now())
	if !caps.Any() {
		return BudgetLine{}, false, nil
	}
	s, err := e.store.DaySpent(ctx, caps.BudgetDay)
	if err != nil {
		return BudgetLine{}, false, err
	}
	for _, l := range caps.lines(s) {
		if l.over() {
			return l, true, nil
		}
	}
	return BudgetLine{}, false, nil
}

// affordable refuses where a budget that concerns an execution is used up: its own, or
// one of today.
func (e *Engine) affordable(ctx context.Context, x Execution) error {
	if l := x.line(); l.over() {
		return Errorf(CodeConflict, "execution #%d: %s", x.Number, l.refusal())
	}
	l, over, err := e.dayOver(ctx, x)
	if err != nil || !over {
		return err
	}
	return Errorf(CodeConflict, "%s", l.refusal())
}

// checkSpending holds what a run has spent against the budgets: it warns, and stops the run
// where one is used up. Where that is one of a day, the other runs that it concerns are
// stopped too, but for idle ones: they spend nothing, and get no messages.
func (e *Engine) checkSpending(ctx context.Context, r *run) error {
	spread, err := e.checkRun(ctx, r, true)
	if err != nil || !spread {
		return err
	}
	for _, other := range e.runs() {
		if other == r {
			continue
		}
		if _, err := e.checkRun(ctx, other, false); err != nil {
			return err
		}
	}
	return nil
}

// checkRun checks one run; with spent it has just spent something. dayOver tells that a
// budget of the day is used up.
func (e *Engine) checkRun(ctx context.Context, r *run, spent bool) (dayOver bool, err error) {
	x, err := e.store.Execution(ctx, r.id)
	if err != nil || x.Status != Running {
		return false, err
	}
	lines, err := e.linesOf(ctx, x)
	if err != nil {
		return false, err
	}
	for _, l := range lines {
		if spent && l.near() && (l.Scope != BudgetRun || !l.over()) { // one that is stopped is not warned
			if err := e.warn(ctx, x, l); err != nil {
				return false, err
			}
		}
		if l.over() && (spent || l.Scope == BudgetRun || x.Activity != agent.Idle) {
			dayOver = dayOver || l.Scope != BudgetRun
			if err := e.stopSpending(ctx, r, x, l); err != nil {
				return false, err
			}
		}
	}
	return dayOver, nil
}

// linesOf returns the budgets that an execution's spending counts for.
func (e *Engine) linesOf(ctx context.Context, x Execution) ([]BudgetLine, error) {
	lines := []BudgetLine{x.line()}
	caps := e.catalog.Load().capsOf(x.AgentID, x.RequestedBy, e.now())
	if !caps.Any() {
		return lines, nil
	}
	s, err := e.store.DaySpent(ctx, caps.BudgetDay)
	return append(lines, caps.lines(s)...), err
}

// warn gives a warning, once for each budget and day.
func (e *Engine) warn(ctx context.Context, x Execution, l BudgetLine) error {
	at := e.now().UTC()
	w := BudgetWarning{Scope: l.Scope, ID: l.ID, AgentID: l.AgentID, ExecutionID: x.ID, Text: l.warning(), At: at}
	if l.Scope != BudgetRun {
		w.Day = e.catalog.Load().day(at)
	}
	first, err := e.store.Warn(ctx, w, Audit{
		At: at, Actor: self, Action: "budget.warn", Object: x.ID, Allowed: true,
		Detail: map[string]any{"scope": string(l.Scope), "id": l.ID, "spent_usd": l.SpentUSD, "cap_usd": l.CapUSD},
	})
	if err != nil || !first {
		return err
	}
	e.log.WarnContext(ctx, "a budget is nearly used up", "scope", l.Scope, "id", l.ID, "execution", x.ID, "number", x.Number, "spent_usd", l.SpentUSD, "cap_usd", l.CapUSD)
	e.watchers.ring(x.ID)
	return nil
}

// stopSpending orders a run to stop because a budget is used up. The order is stored
// under one id, so it is given once, also over restarts of the service.
func (e *Engine) stopSpending(ctx context.Context, r *run, x Execution, l BudgetLine) error {
	at := e.now().UTC()
	_, created, err := e.store.AddCommand(ctx, Command{
		ExecutionID: x.ID, State: Pending, CreatedAt: at,
		Command: rundir.Command{ID: overspentID(x.ID), Op: rundir.OpCancel, By: self, Reason: agent.ReasonBudget, Why: l.refusal()},
	}, &Audit{
		At: at, Actor: self, Action: "budget.stop", Object: x.ID, Allowed: true,
		Detail: map[string]any{"scope": string(l.Scope), "id": l.ID, "spent_usd": l.SpentUSD, "cap_usd": l.CapUSD},
	})
	if CodeOf(err) == CodeConflict {
		return nil // it has ended
	}
	if err != nil {
		return err
	}
	if created {
		e.log.WarnContext(ctx, "a run is stopped: a budget is used up", "scope", l.Scope, "id", l.ID, "execution", x.ID, "number", x.Number, "spent_usd", l.SpentUSD, "cap_usd", l.CapUSD)
	}
	if r.overspent.CompareAndSwap(false, true) {
		r.orders.ring()
		e.insist(r, cancelPatience)
	}
	return nil
}

// self is who does what nobody asked for.
const self = "threadmill"

func overspentID(executionID string) string { return "budget-" + executionID }

// overspent gives the end of a run that was told to stop for a budget its reason, also
// where its runner did not live to say it.
func (e *Engine) overspent(ctx context.Context, c Change) (Change, error) {
	if c.To != Cancelled && c.Reason != agent.ReasonRunnerLost {
		return c, nil
	}
	told, err := e.store.Commands(ctx, c.ID)
	for _, o := range told {
		if o.ID == overspentID(c.ID) {
			c.To, c.Reason, c.Error = Failed, o.Reason, o.Why
		}
	}
	return c, err
}

// enforce checks every live run once: the service may have been away, or killed between
// an amount and what follows from it.
func (e *Engine) enforce(ctx context.Context) {
	for _, r := range e.runs() {
		if _, err := e.checkRun(ctx, r, false); err != nil && ctx.Err() == nil {
			e.log.ErrorContext(ctx, "the budgets of a run could not be checked", "execution", r.id, "number", r.number, "error", err)
		}
	}
}

// BudgetReport is what may be spent on a day, and what is.
type BudgetReport struct {
	Day    string       `json:"day"`
	Zone   string       `json:"tz"`
	Agents []BudgetLine `json:"agents"` // those that have a budget or have spent something
	Users  []BudgetLine `json:"users"`  // one for each agent that caps a user's day; without one, one without a cap
	Runs   []RunSpent   `json:"runs"`   // that spent most
}

// Budget reports what may be spent today, and what is.
func (e *Engine) Budget(ctx context.Context) (BudgetReport, error) {
	cat := e.catalog.Load()
	day := cat.day(e.now())
	s, err := e.store.Spending(ctx, day, topRuns)
	if err != nil {
		return BudgetReport{}, err
	}
	r := BudgetReport{Day: day, Zone: cat.zone().String(), Agents: []BudgetLine{}, Users: []BudgetLine{}, Runs: s.Runs}
	known := map[string]bool{}
	for _, spent := range s.Agents {
		known[spent.ID] = true
		r.Agents = append(r.Agents, dayLine(BudgetAgent, spent, "", cat.Agents[spent.ID].Budget.PerDayUSD, s.Warnings))
	}
	for _, a := range sortedByKey(cat.Agents) {
		if a.Budget.PerDayUSD > 0 && !known[a.ID] {
			r.Agents = append(r.Agents, dayLine(BudgetAgent, Spent{ID: a.ID}, "", a.Budget.PerDayUSD, s.Warnings))
		}
	}
	for _, spent := range s.Users {
		r.Users = append(r.Users, cat.userLines(spent, s.Warnings)...)
	}
	return r, nil
}

// userLines are a user's budgets of a day: agents may cap it differently.
func (c *catalog) userLines(s Spent, warnings []BudgetWarning) []BudgetLine {
	var out []BudgetLine
	for _, a := range sortedByKey(c.Agents) {
		if a.Budget.PerUserDayUSD > 0 {
			out = append(out, dayLine(BudgetUser, s, a.ID, a.Budget.PerUserDayUSD, warnings))
		}
	}
	if len(out) == 0 {
		out = append(out, dayLine(BudgetUser, s, "", 0, nil))
	}
	return out
}

func dayLine(scope BudgetScope, s Spent, agentID string, limit float64, warnings []BudgetWarning) BudgetLine {
	l := BudgetLine{Scope: scope, ID: s.ID, AgentID: agentID, SpentUSD: s.USD, Tokens: s.Tokens}
	if limit > 0 {
		l.CapUSD, l.ExtendedUSD = limit+s.ExtendedUSD, s.ExtendedUSD
	}
	for _, w := range warnings {
		l.Warned = l.Warned || w.Scope == scope && w.ID == s.ID && w.AgentID == agentID
	}
	return l.withLeft()
}

// ExtendRequest adds to a budget: to a live run's, or to a user's or an agent's of today.
type ExtendRequest struct {
	Scope BudgetScope
	ID    string // run: id or number
	USD   float64
	Key   string // says the request is the same one again; may be empty
	By    string
}

// ExtendBudget adds to a budget and returns the budgets that are larger now.
func (e *Engine) ExtendBudget(ctx context.Context, q ExtendRequest) ([]BudgetLine, error) {
	if math.IsNaN(q.USD) || q.USD < 0.01 || q.USD > maxExtension {
		return nil, Errorf(CodeInvalid, "a budget is extended by $0.01 to $%d", maxExtension)
	}
	at, cat := e.now().UTC(), e.catalog.Load()
	x := Extension{Scope: q.Scope, ID: q.ID, Day: cat.day(at), USD: q.USD, Key: q.Key, By: q.By, At: at}
	if err := e.extendable(ctx, cat, &x); err != nil {
		return nil, err
	}
	created, err := e.store.Extend(ctx, x, Audit{
		At: at, Actor: q.By, Action: "budget.extend", Object: x.ID, Allowed: true,
		Detail: map[string]any{"scope": string(x.Scope), "usd": x.USD},
	})
	if err != nil {
		return nil, err
	}
	if created {
		e.log.InfoContext(ctx, "a budget was extended", "scope", x.Scope, "id", x.ID, "usd", x.USD, "by", x.By)
	}
	return e.extended(ctx, cat, x)
}

// extendable refuses to extend what has no cap, and makes the id the real one.
func (e *Engine) extendable(ctx context.Context, cat *catalog, x *Extension) error {
	switch x.Scope {
	case BudgetRun:
		run, err := e.store.Execution(ctx, x.ID)
		if err != nil {
			return err
		}
		if l := run.line(); !run.Status.Ended() && l.over() {
			return Errorf(CodeConflict, "execution #%d is being stopped, since %s are spent; resume it to go on with a new budget", run.Number, l.spent())
		}
		x.ID, x.Day = run.ID, ""
		return nil
	case BudgetAgent:
		a, ok := cat.Agents[x.ID]
		if !ok {
			return Errorf(CodeNotFound, "there is no agent %q; see `threadmill agents`", x.ID)
		}
		if a.Budget.PerDayUSD == 0 {
			return Errorf(CodeConflict, "agent %s has no budget for a day: there is nothing to extend", a.ID)
		}
		return nil
	case BudgetUser:
		if x.ID == "" {
			return Errorf(CodeInvalid, "whose budget is to be extended?")
		}
		for _, a := range cat.Agents {
			if a.Budget.PerUserDayUSD > 0 {
				return nil
			}
		}
		return Errorf(CodeConflict, "no agent has a budget for a user's day: there is nothing to extend")
	}
	return Errorf(CodeInvalid, "a budget is that of a run, a user or an agent, not of a %q", x.Scope)
}

// extended returns the budgets that an extension is for.
func (e *Engine) extended(ctx context.Context, cat *catalog, x Extension) ([]BudgetLine, error) {
	if x.Scope == BudgetRun {
		run, err := e.store.Execution(ctx, x.ID)
		if err != nil {
			return nil, err
		}
		e.watchers.ring(run.ID)
		return []BudgetLine{run.line().withLeft()}, nil
	}
	s, err := e.store.DaySpent(ctx, BudgetDay{Day: x.Day, Who: x.ID, AgentID: x.ID})
	if err != nil {
		return nil, fmt.Errorf("read the extended budget: %w", err)
	}
	if x.Scope == BudgetAgent {
		return []BudgetLine{dayLine(BudgetAgent, s.Agent, "", cat.Agents[x.ID].Budget.PerDayUSD, nil)}, nil
	}
	return cat.userLines(s.User, nil), nil
}
