package storage

import (
	"context"
	"math"
	"time"

	"github.com/threadmill/threadmill/engine"
)

// nanos keeps an amount as whole billionths of a dollar, so that sums are exact.
func nanos(usd float64) int64 { return int64(math.Round(usd * 1e9)) }

func dollars(nanos int64) float64 { return float64(nanos) / 1e9 }

// share is what an execution spent on a day.
type share struct {
	day    string
	nanos  int64
	tokens int64
}

func shareFields(s *share) []any { return []any{&s.day, &s.nanos, &s.tokens} }

// spend notes what an execution has spent by the end of each day. Totals come in, and
// the day gets what the other days have not: so each amount counts once, on the day it
// was spent, however often it is said.
func spend(ctx context.Context, t *tx, e engine.Execution, days []engine.DayUsage) error {
	known, err := list(ctx, t, shareFields, `SELECT day, usd_nanos, tokens FROM spending WHERE execution_id = ?`, e.ID)
	if err != nil {
		return err
	}
	byDay := map[string]share{}
	for _, s := range known {
		byDay[s.day] = s
	}
	for _, d := range days {
		s := shareOf(d, byDay)
		if s == byDay[d.Day] || s.nanos == 0 && s.tokens == 0 && byDay[d.Day].day == "" {
			continue
		}
		byDay[d.Day] = s
		_, err := t.exec(ctx, `INSERT INTO spending (execution_id, day, agent_id, who, usd_nanos, tokens) VALUES (?, ?, ?, ?, ?, ?)
			ON CONFLICT (execution_id, day) DO UPDATE SET usd_nanos = excluded.usd_nanos, tokens = excluded.tokens`,
			e.ID, d.Day, e.AgentID, e.RequestedBy, s.nanos, s.tokens)
		if err != nil {
			return err
		}
	}
	return nil
}

func shareOf(d engine.DayUsage, known map[string]share) share {
	s := share{day: d.Day, nanos: nanos(d.Total.CostUSD), tokens: d.Total.InputTokens + d.Total.OutputTokens}
	for day, other := range known {
		if day != d.Day {
			s.nanos -= other.nanos
			s.tokens -= other.tokens
		}
	}
	s.nanos, s.tokens = max(0, s.nanos), max(0, s.tokens)
	return s
}

// DaySpent returns what a user and an agent have spent on a day.
func (db *DB) DaySpent(ctx context.Context, d engine.BudgetDay) (engine.DaySpent, error) {
	s, err := daySpent(ctx, db.reader, d)
	return s, failed("add up what was spent", err)
}

func daySpent(ctx context.Context, q querier, d engine.BudgetDay) (s engine.DaySpent, err error) {
	if s.User, err = spentOf(ctx, q, `SELECT coalesce(sum(usd_nanos), 0), coalesce(sum(tokens), 0),
			(SELECT coalesce(sum(usd_nanos), 0) FROM budget_extensions WHERE day = ?1 AND scope = 'user' AND subject = ?2)
		FROM spending WHERE day = ?1 AND who = ?2`, d.Day, d.Who); err != nil {
		return s, err
	}
	s.Agent, err = spentOf(ctx, q, `SELECT coalesce(sum(usd_nanos), 0), coalesce(sum(tokens), 0),
			(SELECT coalesce(sum(usd_nanos), 0) FROM budget_extensions WHERE day = ?1 AND scope = 'agent' AND subject = ?2)
		FROM spending WHERE day = ?1 AND agent_id = ?2`, d.Day, d.AgentID)
	return s, err
}

// sums is a row of what was spent.
type sums struct {
	id                      string
	nanos, extended, tokens int64
}

func (s sums) spent() engine.Spent {
	return engine.Spent{ID: s.id, USD: dollars(s.nanos), ExtendedUSD: dollars(s.extended), Tokens: s.tokens}
}

func spentOf(ctx context.Context, q querier, text, day, id string) (engine.Spent, error) {
	found, _, err := first(ctx, q, func(s *sums) []any { return []any{&s.nanos, &s.tokens, &s.extended} }, text, day, id)
	found.id = id
	return found.spent(), err
}

// Spending returns everything that was spent on a day, and the runs that spent most.
func (db *DB) Spending(ctx context.Context, day string, runs int) (s engine.Spending, err error) {
	err = db.reader.snapshot(ctx, func(q querier) error {
		if s.Users, err = spentBy(ctx, q, spentByUser, day); err != nil {
			return err
		}
		if s.Agents, err = spentBy(ctx, q, spentByAgent, day); err != nil {
			return err
		}
		if s.Runs, err = topRuns(ctx, q, day, runs); err != nil {
			return err
		}
		s.Warnings, err = list(ctx, q, warningFields, `SELECT `+warningColumns+` FROM budget_warnings WHERE day = ? ORDER BY at`, day)
		return err
	})
	return s, failed("add up what was spent", err)
}

const (
	spentByUser = `SELECT id, sum(nanos), sum(extended), sum(tokens) FROM (
			SELECT who AS id, usd_nanos AS nanos, 0 AS extended, tokens FROM spending WHERE day = ?1
			UNION ALL SELECT subject, 0, usd_nanos, 0 FROM budget_extensions WHERE day = ?1 AND scope = 'user')
		GROUP BY id ORDER BY 2 DESC, 1`
	spentByAgent = `SELECT id, sum(nanos), sum(extended), sum(tokens) FROM (
			SELECT agent_id AS id, usd_nanos AS nanos, 0 AS extended, tokens FROM spending WHERE day = ?1
			UNION ALL SELECT subject, 0, usd_nanos, 0 FROM budget_extensions WHERE day = ?1 AND scope = 'agent')
		GROUP BY id ORDER BY 2 DESC, 1`
)

func spentBy(ctx context.Context, q querier, text, day string) ([]engine.Spent, error) {
	rows, err := list(ctx, q, func(s *sums) []any { return []any{&s.id, &s.nanos, &s.extended, &s.tokens} }, text, day)
	out := make([]engine.Spent, 0, len(rows))
	for _, s := range rows {
		out = append(out, s.spent())
	}
	return out, err
}

func topRuns(ctx context.Context, q querier, day string, limit int) ([]engine.RunSpent, error) {
	type row struct {
		engine.RunSpent

		nanos int64
	}
	rows, err := list(ctx, q, func(r *row) []any {
		return []any{&r.ExecutionID, &r.Number, &r.AgentID, &r.RequestedBy, &r.nanos, &r.Tokens}
	}, `SELECT s.execution_id, coalesce(e.number, 0), s.agent_id, s.who, s.usd_nanos, s.tokens
		FROM spending s LEFT JOIN executions e ON e.id = s.execution_id
		WHERE s.day = ? ORDER BY s.usd_nanos DESC, s.tokens DESC, s.execution_id LIMIT ?`, day, limit)
	out := make([]engine.RunSpent, 0, len(rows))
	for _, r := range rows {
		r.SpentUSD = dollars(r.nanos)
		out = append(out, r.RunSpent)
	}
	return out, err
}

// Extend adds to a budget, once per key.
func (db *DB) Extend(ctx context.Context, x engine.Extension, a engine.Audit) (created bool, err error) {
	if x.At.IsZero() {
		x.At = db.now()
	}
	err = db.writer.write(ctx, func(ctx context.Context, t *tx) error {
		created, err = extend(ctx, t, x, a)
		return err
	})
	return created, failed("extend the budget", err)
}

func extend(ctx context.Context, t *tx, x engine.Extension, a engine.Audit) (bool, error) {
	n, err := t.exec(ctx, `INSERT INTO budget_extensions (key, scope, subject, day, usd_nanos, added_by, at)
		VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO NOTHING`,
		nullable{&x.Key}, x.Scope, x.ID, x.Day, nanos(x.USD), x.By, moment{&x.At})
	if err != nil || n == 0 {
		return false, err
	}
	if x.Scope == engine.BudgetRun {
		if err := extendRun(ctx, t, x); err != nil {
			return false, err
		}
	}
	return true, insertAudit(ctx, t, a)
}

func extendRun(ctx context.Context, t *tx, x engine.Extension) error {
	n, err := t.exec(ctx, `UPDATE executions SET cap_usd = cap_usd + ?1, extended_usd = extended_usd + ?1
		WHERE id = ?2 AND cap_usd > 0 AND `+isActive, x.USD, x.ID)
	if err != nil || n > 0 {
		return err
	}
	e, err := executionByID(ctx, t, x.ID)
	switch {
	case err != nil:
		return err
	case e.Status.Ended():
		return already(e)
	}
	return engine.Errorf(engine.CodeConflict, "execution #%d has no budget in dollars to extend", e.Number)
}

const warningColumns = `day, scope, subject, agent_id, execution_id, text, at`

func warningFields(w *engine.BudgetWarning) []any {
	return []any{&w.Day, &w.Scope, &w.ID, &w.AgentID, &w.ExecutionID, &w.Text, moment{&w.At}}
}

// Warn notes a warning; first is false where it was given before.
func (db *DB) Warn(ctx context.Context, w engine.BudgetWarning, a engine.Audit) (first bool, err error) {
	if w.At.IsZero() {
		w.At = db.now()
	}
	err = db.writer.write(ctx, func(ctx context.Context, t *tx) error {
		n, err := t.exec(ctx, `INSERT INTO budget_warnings (`+warningColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT DO NOTHING`, warningFields(&w)...)
		if first = n > 0; err != nil || !first {
			return err
		}
		if _, err := t.exec(ctx, `UPDATE executions SET budget_warning = ? WHERE id = ?`, w.Text, w.ExecutionID); err != nil {
			return err
		}
		return insertAudit(ctx, t, a)
	})
	return first, failed("note the warning", err)
}

// forgetBudgets removes what was spent long before t. What was spent up to two days
// before stays: it may be today somewhere, however short things are kept.
func forgetBudgets(ctx context.Context, t *tx, before time.Time) error {
	before = before.AddDate(0, 0, -2)
	if _, err := t.exec(ctx, `DELETE FROM budget_extensions WHERE at < ?`, moment{&before}); err != nil {
		return err
	}
	if _, err := t.exec(ctx, `DELETE FROM budget_warnings WHERE at < ?`, moment{&before}); err != nil {
		return err
	}
	_, err := t.exec(ctx, `DELETE FROM spending WHERE day < ?
		AND NOT EXISTS (SELECT 1 FROM executions WHERE id = spending.execution_id)`, before.Format(time.DateOnly))
	return err
}
