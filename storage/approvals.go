package storage

import (
	"context"
	"strings"

	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/agent"
)

const approvalColumns = `id, execution_id, ask_id, kind, text, ask, risk, state, decision, created_at, decided_at`

func approvalFields(a *engine.Approval) []any {
	return []any{
		&a.ID, &a.ExecutionID, &a.AskID, &a.Kind, &a.Text,
		document{&a.Ask},
		&a.Risk,
		&a.State,
		document{&a.Decision},
		moment{&a.CreatedAt},
		maybe{&a.DecidedAt},
	}
}

// Approval finds one by its id.
func (db *DB) Approval(ctx context.Context, id string) (engine.Approval, error) {
	a, err := approvalByID(ctx, db.reader, id)
	return a, failed("read the approval", err)
}

func approvalByID(ctx context.Context, q querier, id string) (engine.Approval, error) {
	a, ok, err := first(ctx, q, approvalFields, `SELECT `+approvalColumns+` FROM approvals WHERE id = ?`, id)
	if err == nil && !ok {
		err = engine.Errorf(engine.CodeNotFound, "there is no approval %q", id)
	}
	return current(a), err
}

// current makes the ask inside an approval say what the approval says: the column is
// the truth about what changes.
func current(a engine.Approval) engine.Approval {
	a.Ask.State, a.Ask.Decision = a.State, a.Decision
	return a
}

// Approvals returns those that match, oldest first.
func (db *DB) Approvals(ctx context.Context, f engine.ApprovalFilter) ([]engine.Approval, error) {
	where, args := approvalFilter(f)
	found, err := list(ctx, db.reader, approvalFields, `SELECT `+approvalColumns+` FROM approvals`+where+` ORDER BY seq`, args...)
	for i := range found {
		found[i] = current(found[i])
	}
	return found, failed("list the approvals", err)
}

func approvalFilter(f engine.ApprovalFilter) (where string, args []any) {
	var terms []string
	if f.ExecutionID != "" {
		terms, args = append(terms, `execution_id = ?`), append(args, f.ExecutionID)
	}
	if f.OpenOnly {
		terms = append(terms, `state = 'open'`)
	}
	if len(terms) == 0 {
		return "", nil
	}
	return ` WHERE ` + strings.Join(terms, ` AND `), args
}

// Decide settles an open approval; the first decision wins.
func (db *DB) Decide(ctx context.Context, s engine.Settlement) (decided engine.Approval, err error) {
	if s.Approval.DecidedAt == nil {
		now := db.now()
		s.Approval.DecidedAt = &now
	}
	err = db.writer.write(ctx, func(ctx context.Context, t *tx) error {
		decided, err = decide(ctx, t, s)
		return err
	})
	return decided, failed("store the decision", err)
}

func decide(ctx context.Context, t *tx, s engine.Settlement) (engine.Approval, error) {
	stored, err := approvalByID(ctx, t, s.Approval.ID)
	switch {
	case err != nil:
		return engine.Approval{}, err
	case stored.State != agent.AskOpen:
		return stored, tooLate(stored)
	case s.UsedRule != "":
		if err := useRule(ctx, t, s.UsedRule, *s.Approval.DecidedAt); err != nil {
			return stored, err
		}
	}
	if _, err := t.exec(ctx, `UPDATE approvals SET state = 'decided', decision = ?, decided_at = ? WHERE id = ?`,
		document{s.Approval.Decision}, maybe{&s.Approval.DecidedAt}, stored.ID); err != nil {
		return engine.Approval{}, err
	}
	s.Command.ExecutionID = stored.ExecutionID
	if err := settle(ctx, t, s); err != nil {
		return engine.Approval{}, err
	}
	return approvalByID(ctx, t, stored.ID)
}

// settle stores what a decision brings with it.
func settle(ctx context.Context, t *tx, s engine.Settlement) error {
	if s.Command.CreatedAt.IsZero() {
		s.Command.CreatedAt = *s.Approval.DecidedAt
	}
	if err := insertCommand(ctx, t, s.Command); err != nil {
		return err
	}
	if s.Rule != nil {
		if err := insertRule(ctx, t, *s.Rule); err != nil {
			return err
		}
	}
	for _, a := range s.Audit {
		if err := insertAudit(ctx, t, a); err != nil {
			return err
		}
	}
	return nil
}

func tooLate(a engine.Approval) error {
	state := strings.ReplaceAll(string(a.State), "_", " ")
	if a.State == agent.AskDecided && a.Decision != nil && a.Decision.By != "" {
		state += " by " + a.Decision.By
	}
	return engine.Errorf(engine.CodeConflict, "approval %s is %s already", a.ID, state)
}
