package storage

import (
	"context"
	"strings"
	"time"

	"github.com/threadmill/threadmill/engine"
)

const ruleColumns = `id, decision, scope, subject, tool, match, message, expires_at, created_by, created_at, last_used_at, uses`

func ruleFields(r *engine.Rule) []any {
	return []any{
		&r.ID, &r.Decision, &r.Scope, &r.Subject, &r.Tool, &r.Match, &r.Message,
		maybe{&r.ExpiresAt},
		&r.CreatedBy,
		moment{&r.CreatedAt},
		maybe{&r.LastUsedAt},
		&r.Uses,
	}
}

// Rules returns those that match, oldest first.
func (db *DB) Rules(ctx context.Context, f engine.RuleFilter) ([]engine.Rule, error) {
	where, args := ruleFilter(f)
	found, err := list(ctx, db.reader, ruleFields, `SELECT `+ruleColumns+` FROM rules`+where+` ORDER BY seq`, args...)
	return found, failed("list the rules", err)
}

func ruleFilter(f engine.RuleFilter) (where string, args []any) {
	var terms []string
	if f.Subjects != nil {
		terms, args = append(terms, `subject IN (SELECT value FROM json_each(?))`), append(args, document{f.Subjects})
	}
	if !f.At.IsZero() {
		terms, args = append(terms, inForce), append(args, moment{&f.At})
	}
	if len(terms) == 0 {
		return "", nil
	}
	return ` WHERE ` + strings.Join(terms, ` AND `), args
}

const inForce = `(expires_at IS NULL OR expires_at > ?)`

func insertRule(ctx context.Context, t *tx, r engine.Rule) error {
	_, err := t.exec(ctx, `INSERT INTO rules (`+ruleColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, ruleFields(&r)...)
	return err
}

// useRule counts a use of a rule that is in force at that time.
func useRule(ctx context.Context, t *tx, id string, at time.Time) error {
	n, err := t.exec(ctx, `UPDATE rules SET uses = uses + 1, last_used_at = ? WHERE id = ? AND `+inForce, moment{&at}, id, moment{&at})
	if err == nil && n == 0 {
		err = engine.Errorf(engine.CodeConflict, "rule %s is gone, or has expired", id)
	}
	return err
}

// RemoveRule removes a rule and returns it.
func (db *DB) RemoveRule(ctx context.Context, id string, by engine.Audit) (removed engine.Rule, err error) {
	err = db.writer.write(ctx, func(ctx context.Context, t *tx) error {
		removed, err = removeRule(ctx, t, id, by)
		return err
	})
	return removed, failed("remove the rule", err)
}

func removeRule(ctx context.Context, t *tx, id string, by engine.Audit) (engine.Rule, error) {
	r, found, err := first(ctx, t, ruleFields, `SELECT `+ruleColumns+` FROM rules WHERE id = ?`, id)
	if err != nil {
		return r, err
	}
	if !found {
		return r, engine.Errorf(engine.CodeNotFound, "there is no rule %q; see `threadmill rules`", id)
	}
	if _, err := t.exec(ctx, `DELETE FROM rules WHERE id = ?`, id); err != nil {
		return r, err
	}
	return r, insertAudit(ctx, t, by)
}

// deleteRules forgets rules that expired before then, and those of runs that are
// forgotten themselves.
func deleteRules(ctx context.Context, t *tx, before time.Time) error {
	if _, err := t.exec(ctx, `DELETE FROM rules WHERE expires_at IS NOT NULL AND expires_at < ?`, moment{&before}); err != nil {
		return err
	}
	_, err := t.exec(ctx, `DELETE FROM rules WHERE scope = 'run' AND NOT EXISTS (SELECT 1 FROM executions WHERE id = rules.subject)`)
	return err
}
