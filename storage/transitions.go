package storage

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/threadmill/threadmill/engine"
)

// Transition makes a guarded change of an execution's status, with all that follows.
func (db *DB) Transition(ctx context.Context, c engine.Change) (e engine.Execution, err error) {
	if c.At.IsZero() {
		c.At = db.now()
	}
	err = db.writer.write(ctx, func(ctx context.Context, t *tx) error {
		e, err = transition(ctx, t, c)
		return err
	})
	if err != nil {
		return engine.Execution{}, failed("change the execution's status", err)
	}
	return e, nil
}

func transition(ctx context.Context, t *tx, c engine.Change) (engine.Execution, error) {
	changed, err := setStatus(ctx, t, c)
	if err != nil {
		return engine.Execution{}, err
	}
	if !changed {
		return engine.Execution{}, whyNot(ctx, t, c)
	}
	e, err := executionByID(ctx, t, c.ID)
	if err != nil {
		return e, err
	}
	if len(c.Days) > 0 {
		if err := spend(ctx, t, e, c.Days); err != nil {
			return e, err
		}
	}
	if c.Then != nil { // before the task moves: it stays in progress for this one
		if _, _, err := createExecution(ctx, t, *c.Then); err != nil {
			return e, err
		}
	}
	if c.Command != nil {
		if err := insertCommand(ctx, t, *c.Command); err != nil {
			return e, err
		}
	}
	if err := settleOpen(ctx, t, c); err != nil {
		return e, err
	}
	if err := moveTask(ctx, t, e, c); err != nil {
		return e, err
	}
	if c.Audit != nil {
		err = insertAudit(ctx, t, *c.Audit)
	}
	return e, err
}

// setStatus is the guarded UPDATE: the table of transitions is its WHERE.
func setStatus(ctx context.Context, t *tx, c engine.Change) (bool, error) {
	n, err := t.exec(ctx, `UPDATE executions SET
			status          = :to,
			activity        = CASE :to WHEN 'running' THEN 'working' ELSE '' END,
			idle_since      = NULL,
			started_at      = CASE :to WHEN 'running' THEN :at ELSE started_at END,
			ended_at        = CASE WHEN :ended THEN :at ELSE ended_at END,
			reason          = coalesce(nullif(:reason, ''), reason),
			error           = coalesce(nullif(:error, ''), error),
			resets_at       = coalesce(:resets_at, resets_at),
			exit_code       = coalesce(:exit_code, exit_code),
			signal          = coalesce(nullif(:signal, ''), signal),
			processes_ended = coalesce(nullif(:processes_ended, 0), processes_ended),
			processes_left  = coalesce(nullif(:processes_left, 0), processes_left),
			session_ref     = coalesce(nullif(:session_ref, ''), session_ref),
			tmux_session    = coalesce(nullif(:tmux_session, ''), tmux_session),
			log_bytes       = coalesce(nullif(:log_bytes, 0), log_bytes),
			log_lines       = coalesce(nullif(:log_lines, 0), log_lines),
			input_tokens    = coalesce(:input_tokens, input_tokens),
			output_tokens   = coalesce(:output_tokens, output_tokens),
			cost_usd        = coalesce(:cost_usd, cost_usd)
		WHERE id = :id AND status IN (SELECT value FROM json_each(:from))`, changeArgs(c)...)
	return n > 0, err
}

func changeArgs(c engine.Change) []any {
	in, out, cost := usageArgs(c.Usage)
	return []any{
		sql.Named("id", c.ID), sql.Named("to", c.To), sql.Named("from", document{c.To.From()}),
		sql.Named("at", moment{&c.At}), sql.Named("ended", c.To.Ended()),
		sql.Named("reason", c.Reason), sql.Named("error", c.Error), sql.Named("resets_at", maybe{&c.ResetsAt}),
		sql.Named("exit_code", c.ExitCode), sql.Named("signal", c.Signal),
		sql.Named("processes_ended", c.Ended), sql.Named("processes_left", c.Left),
		sql.Named("session_ref", c.SessionRef), sql.Named("tmux_session", c.TmuxSession),
		sql.Named("log_bytes", c.LogBytes), sql.Named("log_lines", c.LogLines),
		sql.Named("input_tokens", in), sql.Named("output_tokens", out), sql.Named("cost_usd", cost),
	}
}

// whyNot explains a change that its guard refused.
func whyNot(ctx context.Context, q querier, c engine.Change) error {
	e, err := executionByID(ctx, q, c.ID)
	if err != nil {
		return err
	}
	if e.Status.Ended() || e.Status == c.To {
		return already(e)
	}
	return engine.Errorf(engine.CodeConflict, "execution #%d is %s and cannot become %s", e.Number, words(e.Status), words(c.To))
}

func already(e engine.Execution) error {
	return engine.Errorf(engine.CodeConflict, "execution #%d is %s already", e.Number, words(e.Status))
}

func words(s engine.Status) string { return strings.ReplaceAll(string(s), "_", " ") }

// settleOpen settles what an end leaves open: nobody waits for an answer any more,
// and what no agent has taken by now never will be.
func settleOpen(ctx context.Context, t *tx, c engine.Change) error {
	if len(c.Unsent) > 0 {
		if err := undelivered(ctx, t, c.ID, c.At, c.Unsent); err != nil {
			return err
		}
	}
	if !c.To.Ended() {
		return nil
	}
	if _, err := t.exec(ctx, `UPDATE commands SET state = 'undelivered', settled_at = ?
		WHERE execution_id = ? AND state IN ('pending', 'accepted')`, moment{&c.At}, c.ID); err != nil {
		return err
	}
	_, err := t.exec(ctx, `UPDATE approvals SET state = 'withdrawn', decided_at = ?
		WHERE execution_id = ? AND state = 'open'`, moment{&c.At}, c.ID)
	return err
}

func undelivered(ctx context.Context, t *tx, executionID string, at time.Time, ids []string) error {
	_, err := t.exec(ctx, `UPDATE commands SET state = 'undelivered', settled_at = ?
		WHERE execution_id = ? AND state IN ('pending', 'accepted') AND id IN (SELECT value FROM json_each(?))`,
		moment{&at}, executionID, document{ids})
	return err
}

// moveTask lets the task follow its execution. It stays in progress while another
// execution of it goes on.
func moveTask(ctx context.Context, t *tx, e engine.Execution, c engine.Change) error {
	var after engine.TaskStatus
	var reason string
	switch {
	case c.To.Ended():
		after = engine.AfterExecution(c.To)
		if after == engine.Todo {
			reason = cmp.Or(c.Error, fmt.Sprintf("execution #%d: %s", e.Number, words(c.To)))
		}
	case c.To == engine.Running:
		after = engine.InProgress
	case c.Tail == nil:
		return nil
	}
	_, err := t.exec(ctx, `UPDATE tasks SET
			status     = CASE WHEN :after = '' THEN status WHEN busy THEN 'in_progress' ELSE :after END,
			error      = CASE WHEN :after = '' THEN error WHEN busy THEN '' ELSE :error END,
			tail       = coalesce(:tail, tail),
			updated_at = :at
		FROM (SELECT EXISTS (SELECT 1 FROM executions WHERE task_id = :id AND `+isActive+`) AS busy)
		WHERE id = :id`,
		sql.Named("id", e.TaskID), sql.Named("after", after), sql.Named("error", reason),
		sql.Named("tail", tailArg(c.Tail)), sql.Named("at", moment{&c.At}))
	return err
}

// tailArg is the last lines that a task keeps, or nil for those it has.
func tailArg(lines []string) any {
	if lines == nil {
		return nil
	}
	return document{lines[max(0, len(lines)-engine.TailLines):]}
}
