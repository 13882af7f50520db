package storage

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/threadmill/threadmill/engine"
)

// executionColumns and executionFields go together, one by one.
const executionColumns = `number, id, task_id, agent_id, capability_id, parent_id,
	status, activity, idle_since, reason, error, resets_at, mode, once, session_ref, fork, dir,
	pid, tmux_session, exit_code, signal, processes_ended, processes_left,
	requested_by, created_at, started_at, ended_at, heartbeat_at,
	log_bytes, log_lines, logs_deleted, input_tokens, output_tokens, cost_usd,
	idempotency_key, resumes, cursor_seq, cursor_offset, not_before,
	CASE WHEN cap_usd > 0 OR cap_tokens > 0 OR budget_warning <> '' THEN cost_usd ELSE 0 END,
	cap_usd, extended_usd, cap_tokens, budget_warning <> '', budget_warning, args, prompt, argv, attachments`

func executionFields(e *engine.Execution) []any {
	return []any{
		&e.Number, &e.ID, &e.TaskID, &e.AgentID, &e.CapabilityID,
		nullable{&e.ParentID},
		&e.Status, &e.Activity,
		maybe{&e.IdleSince},
		&e.Reason, &e.Error,
		maybe{&e.ResetsAt},
		&e.Mode, &e.Once, &e.SessionRef, &e.Fork, &e.Dir,
		&e.Pid, &e.TmuxSession, &e.ExitCode, &e.Signal, &e.Ended, &e.Left,
		&e.RequestedBy,
		moment{&e.CreatedAt},
		maybe{&e.StartedAt},
		maybe{&e.EndedAt},
		maybe{&e.HeartbeatAt},
		&e.LogByteSize, &e.LogLineCount, &e.LogsDeleted, &e.Usage.InputTokens, &e.Usage.OutputTokens, &e.Usage.CostUSD,
		nullable{&e.IdempotencyKey},
		&e.Resumes, &e.Cursor.Seq, &e.Cursor.Offset,
		maybe{&e.NotBefore},
		&e.Budget.SpentUSD, &e.Budget.CapUSD, &e.Budget.ExtendedUSD, &e.Budget.CapTokens, &e.Budget.Warned, &e.Budget.Warning,
		object{&e.Args},
		&e.Prompt,
		document{&e.Argv},
		document{&e.Attachments},
	}
}

const (
	selectExecutions = `SELECT ` + executionColumns + ` FROM executions JOIN requests USING (number)`

	// isActive is spelled as in the partial index, or the planner would not use that.
	isActive = `status IN ('queued', 'running', 'cancelling')`
)

// CreateExecution stores a request as a queued execution, with its task.
func (db *DB) CreateExecution(ctx context.Context, n engine.NewExecution) (e engine.Execution, created bool, err error) {
	err = db.writer.write(ctx, func(ctx context.Context, t *tx) error {
		e, created, err = createExecution(ctx, t, n)
		return err
	})
	if err != nil {
		return engine.Execution{}, false, failed("store the execution", err)
	}
	return e, created, nil
}

func createExecution(ctx context.Context, t *tx, n engine.NewExecution) (engine.Execution, bool, error) {
	n.Execution.TaskID = cmp.Or(n.Execution.TaskID, n.Task.ID)
	if key := n.Execution.IdempotencyKey; key != "" {
		earlier, ok, err := first(ctx, t, executionFields, selectExecutions+` WHERE idempotency_key = ?`, key)
		if err != nil || ok {
			return earlier, false, err
		}
	}
	if err := checkBusy(ctx, t, n); err != nil {
		return engine.Execution{}, false, err
	}
	if err := checkCaps(ctx, t, n.Caps); err != nil {
		return engine.Execution{}, false, err
	}
	if err := checkFree(ctx, t, n); err != nil {
		return engine.Execution{}, false, err
	}
	if err := takeTask(ctx, t, n); err != nil {
		return engine.Execution{}, false, err
	}
	e := n.Execution
	if err := insertExecution(ctx, t, e); err != nil {
		return e, false, err
	}
	if err := insertAudit(ctx, t, n.Audit); err != nil {
		return e, false, err
	}
	e, err := executionByID(ctx, t, e.ID)
	return e, err == nil, err
}

// checkFree refuses where the task has an execution that has not ended.
func checkFree(ctx context.Context, q querier, n engine.NewExecution) error {
	if !n.TaskFree {
		return nil
	}
	active, _, err := first(ctx, q, itself[int], `SELECT count(*) FROM executions WHERE `+isActive+` AND task_id = ?`, n.Execution.TaskID)
	if err != nil || active == 0 {
		return err
	}
	return engine.Errorf(engine.CodeConflict, "An agent is already running")
}

// checkBusy refuses where the agent has as many executions as it may. One that is
// idle or parked holds no place.
func checkBusy(ctx context.Context, q querier, n engine.NewExecution) error {
	if n.RejectAt <= 0 {
		return nil
	}
	e := n.Execution
	busy, _, err := first(ctx, q, itself[int], `SELECT count(*) FROM executions
		WHERE `+isActive+` AND agent_id = ? AND activity <> 'idle' AND (status <> 'queued' OR coalesce(not_before, 0) <= ?)`,
		e.AgentID, moment{&e.CreatedAt})
	if err != nil || busy < n.RejectAt {
		return err
	}
	return engine.Errorf(engine.CodeConflict,
		"agent %s is busy: it has %d of at most %d executions; wait until one ends, or cancel one", e.AgentID, busy, n.RejectAt)
}

// checkCaps refuses where a budget of the day is used up.
func checkCaps(ctx context.Context, q querier, c engine.DayCaps) error {
	if !c.Any() {
		return nil
	}
	s, err := daySpent(ctx, q, c.BudgetDay)
	if err != nil {
		return err
	}
	return c.Check(s)
}

func insertExecution(ctx context.Context, t *tx, e engine.Execution) error {
	_, err := t.exec(ctx, `INSERT INTO executions (id, task_id, agent_id, capability_id, parent_id, status, mode, once,
			session_ref, fork, dir, requested_by, created_at, idempotency_key, resumes, not_before, cap_usd, cap_tokens)
		VALUES (?, ?, ?, ?, ?, 'queued', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		e.ID, e.TaskID, e.AgentID, e.CapabilityID, nullable{&e.ParentID}, e.Mode, e.Once,
		e.SessionRef, e.Fork, e.Dir, e.RequestedBy, moment{&e.CreatedAt}, nullable{&e.IdempotencyKey}, e.Resumes,
		maybe{&e.NotBefore}, e.Budget.CapUSD, e.Budget.CapTokens)
	if err != nil {
		return err
	}
	_, err = t.exec(ctx, `INSERT INTO requests (number, args, prompt, argv, attachments)
		VALUES (last_insert_rowid(), ?, ?, ?, ?)`, object{&e.Args}, e.Prompt, document{e.Argv}, document{e.Attachments})
	return err
}

// Execution finds one by its id or its number, with or without the number sign.
func (db *DB) Execution(ctx context.Context, ref string) (engine.Execution, error) {
	e, err := findExecution(ctx, db.reader, ref)
	return e, failed("read the execution", err)
}

func findExecution(ctx context.Context, q querier, ref string) (engine.Execution, error) {
	n, ok := parseNumber(ref)
	if !ok {
		return executionByID(ctx, q, ref)
	}
	e, ok, err := first(ctx, q, executionFields, selectExecutions+` WHERE number = ?`, n)
	if err == nil && !ok {
		err = engine.Errorf(engine.CodeNotFound, "there is no execution #%d", n)
	}
	return e, err
}

func executionByID(ctx context.Context, q querier, id string) (engine.Execution, error) {
	e, ok, err := first(ctx, q, executionFields, selectExecutions+` WHERE id = ?`, id)
	if err == nil && !ok {
		err = engine.Errorf(engine.CodeNotFound, "there is no execution %q", id)
	}
	return e, err
}

// parseNumber reads what people call an execution by.
func parseNumber(ref string) (int64, bool) {
	digits := strings.TrimPrefix(ref, "#")
	if digits == "" || digits[0] < '0' || digits[0] > '9' { // no signs
		return 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	return n, err == nil
}

// Executions returns a page, newest first, and how many match.
func (db *DB) Executions(ctx context.Context, f engine.Filter) (found []engine.Execution, total int, err error) {
	where, args := executionFilter(f)
	limit, offset := page(f.Page, f.PageSize, 50, 200)
	err = db.reader.snapshot(ctx, func(q querier) error {
		total, _, err = first(ctx, q, itself[int], `SELECT count(*) FROM executions`+where, args...)
		if err != nil {
			return err
		}
		found, err = list(ctx, q, executionFields,
			selectExecutions+where+` ORDER BY number DESC LIMIT ? OFFSET ?`, append(args, limit, offset)...)
		return err
	})
	return found, total, failed("list the executions", err)
}

// executionFilter builds one of the few WHERE clauses that there are, each a constant
// text, so prepared statements stay few.
func executionFilter(f engine.Filter) (where string, args []any) {
	var terms []string
	if f.TaskID != "" {
		terms, args = append(terms, `task_id = ?`), append(args, f.TaskID)
	}
	if f.AgentID != "" {
		terms, args = append(terms, `agent_id = ?`), append(args, f.AgentID)
	}
	if len(f.Statuses) > 0 {
		terms, args = append(terms, `status IN (SELECT value FROM json_each(?))`), append(args, document{f.Statuses})
	}
	if len(terms) == 0 {
		return "", nil
	}
	return ` WHERE ` + strings.Join(terms, ` AND `), args
}

// Active returns all that have not ended, oldest first.
func (db *DB) Active(ctx context.Context) ([]engine.Execution, error) {
	found, err := list(ctx, db.reader, executionFields, selectExecutions+` WHERE `+isActive+` ORDER BY number`)
	return found, failed("list the active executions", err)
}

// Heartbeat notes that runners answered.
func (db *DB) Heartbeat(ctx context.Context, ids []string, at time.Time) error {
	err := db.writer.write(ctx, func(ctx context.Context, t *tx) error {
		_, err := t.exec(ctx, `UPDATE executions SET heartbeat_at = ?
			WHERE status IN ('running', 'cancelling') AND id IN (SELECT value FROM json_each(?))`, moment{&at}, document{ids})
		return err
	})
	return failed("note the heartbeats", err)
}

// failed says what could not be done, unless the error is one for the user already.
func failed(what string, err error) error {
	if err == nil || engine.CodeOf(err) != engine.CodeInternal {
		return err
	}
	return fmt.Errorf("%s: %w", what, err)
}
