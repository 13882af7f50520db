package storage

import (
	"context"
	"time"

	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/rundir"
)

// Commit stores the effect of entries together with the cursor, so that each entry
// acts exactly once, whenever the process is killed.
func (db *DB) Commit(ctx context.Context, p engine.Progress) error {
	now := db.now()
	err := db.writer.write(ctx, func(ctx context.Context, t *tx) error {
		return commit(ctx, t, p, now)
	})
	return failed("store the execution's progress", err)
}

func commit(ctx context.Context, t *tx, p engine.Progress, now time.Time) error {
	changed, err := advance(ctx, t, p, now)
	if err != nil {
		return err
	}
	if !changed {
		return whyNoProgress(ctx, t, p)
	}
	if err := spendProgress(ctx, t, p); err != nil {
		return err
	}
	for _, a := range p.Asks {
		if err := noteAsk(ctx, t, p.ID, a, now); err != nil {
			return err
		}
	}
	if len(p.Handed) == 0 {
		return nil
	}
	return handed(ctx, t, p.ID, p.Handed, now)
}

// spendProgress notes what was spent; it is rare enough to read the execution for it.
func spendProgress(ctx context.Context, t *tx, p engine.Progress) error {
	if len(p.Days) == 0 {
		return nil
	}
	e, err := executionByID(ctx, t, p.ID)
	if err != nil {
		return err
	}
	return spend(ctx, t, e, p.Days)
}

// advance writes what is new about the execution. It is the statement that runs most
// often, so its parameters go by position: ?1 id, ?2 and ?3 the cursor, ?4 activity,
// ?5 now, then the rest. An execution that is being cancelled shows no activity.
func advance(ctx context.Context, t *tx, p engine.Progress, now time.Time) (bool, error) {
	in, out, cost := usageArgs(p.Usage)
	n, err := t.exec(ctx, `UPDATE executions SET
			cursor_seq    = ?2,
			cursor_offset = ?3,
			activity      = CASE WHEN ?4 = '' OR status <> 'running' THEN activity ELSE ?4 END,
			idle_since    = CASE WHEN ?4 = '' OR status <> 'running' THEN idle_since
			                     WHEN ?4 <> 'idle' THEN NULL
			                     WHEN activity = 'idle' AND NOT ?14 THEN idle_since
			                     ELSE ?5 END,
			session_ref   = coalesce(nullif(?6, ''), session_ref),
			pid           = coalesce(nullif(?7, 0), pid),
			tmux_session  = coalesce(nullif(?8, ''), tmux_session),
			log_bytes     = coalesce(nullif(?9, 0), log_bytes),
			log_lines     = coalesce(nullif(?10, 0), log_lines),
			input_tokens  = coalesce(?11, input_tokens),
			output_tokens = coalesce(?12, output_tokens),
			cost_usd      = coalesce(?13, cost_usd)
		WHERE id = ?1 AND status IN ('running', 'cancelling') AND cursor_seq <= ?2 AND cursor_offset <= ?3`,
		p.ID, p.Cursor.Seq, p.Cursor.Offset, string(p.Activity), now.UnixNano(),
		p.Session, p.Pid, p.Tmux, p.LogBytes, p.LogLines, in, out, cost, p.Worked)
	return n > 0, err
}

// usageArgs is what was spent, as arguments that are NULL where it is not known.
func usageArgs(u *agent.Usage) (in, out *int64, cost *float64) {
	if u == nil {
		return nil, nil, nil
	}
	return &u.InputTokens, &u.OutputTokens, &u.CostUSD
}

func whyNoProgress(ctx context.Context, q querier, p engine.Progress) error {
	e, err := executionByID(ctx, q, p.ID)
	switch {
	case err != nil:
		return err
	case e.Status.Ended():
		return already(e)
	case !e.Status.Live():
		return engine.Errorf(engine.CodeConflict, "execution #%d is %s and makes no progress", e.Number, words(e.Status))
	}
	return engine.Errorf(engine.CodeConflict, "execution #%d has come to entry %d already, beyond %d", e.Number, e.Cursor.Seq, p.Cursor.Seq)
}

// noteAsk stores what the runner says of an ask. An open one is new, or known and asked
// again with another deadline; any other state is what the agent got, and stands above what was stored.
func noteAsk(ctx context.Context, t *tx, executionID string, a engine.Approval, now time.Time) error {
	a = normalAsk(a, now)
	a.ExecutionID = executionID
	insert := `INSERT INTO approvals (` + approvalColumns + `) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (execution_id, ask_id) DO `
	if a.State == agent.AskOpen {
		_, err := t.exec(ctx, insert+`UPDATE SET ask = excluded.ask WHERE state = 'open'`, approvalFields(&a)...)
		return err
	}
	_, err := t.exec(ctx, insert+`UPDATE SET ask = excluded.ask, state = excluded.state,
		decision = excluded.decision, decided_at = excluded.decided_at`, approvalFields(&a)...)
	return err
}

// normalAsk fills in what an approval may leave to its ask.
func normalAsk(a engine.Approval, now time.Time) engine.Approval {
	if a.ID == "" {
		a.ID = rundir.NewID()
	}
	if a.State == "" {
		a.State = a.Ask.State
	}
	if a.Decision == nil {
		a.Decision = a.Ask.Decision
	}
	if a.CreatedAt.IsZero() {
		a.CreatedAt = now
	}
	switch {
	case a.State == agent.AskOpen:
		a.DecidedAt = nil
	case a.DecidedAt == nil:
		a.DecidedAt = &now
	}
	return a
}

// handed notes that messages reached the agent. Ids that are no command of ours
// (the prompt, a line typed in the terminal) are none of our business here.
func handed(ctx context.Context, t *tx, executionID string, ids []string, now time.Time) error {
	_, err := t.exec(ctx, `UPDATE commands SET state = 'handed', settled_at = ?
		WHERE execution_id = ? AND state <> 'handed' AND id IN (SELECT value FROM json_each(?))`,
		moment{&now}, executionID, document{ids})
	return err
}
