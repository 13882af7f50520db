package storage

import (
	"context"
	"time"

	"github.com/threadmill/threadmill/engine"
)

// Retention works in transactions of these sizes: after a long time without it there
// may be much to forget, and live executions must not wait for all of it.
const (
	forgetExecutions = 200
	forgetAudit      = 2000
)

// LogsBefore returns executions that ended before t and still have files, oldest
// end first.
func (db *DB) LogsBefore(ctx context.Context, t time.Time, limit int) ([]engine.Execution, error) {
	found, err := list(ctx, db.reader, executionFields, selectExecutions+`
		WHERE ended_at IS NOT NULL AND logs_deleted = 0 AND ended_at < ? ORDER BY ended_at LIMIT ?`, moment{&t}, limit)
	return found, failed("list the old logs", err)
}

// LogsDeleted notes that files are gone.
func (db *DB) LogsDeleted(ctx context.Context, ids []string) error {
	err := db.writer.write(ctx, func(ctx context.Context, t *tx) error {
		_, err := t.exec(ctx, `UPDATE executions SET logs_deleted = 1
			WHERE ended_at IS NOT NULL AND id IN (SELECT value FROM json_each(?))`, document{ids})
		return err
	})
	return failed("note the deleted logs", err)
}

// DeleteBefore forgets executions that ended before t and have no files any more,
// with their commands, approvals and emptied tasks, audit rows from before t about
// nothing that is left, and what budgets need no more. Each portion is a transaction.
func (db *DB) DeleteBefore(ctx context.Context, t time.Time) (executions int, err error) {
	executions, err = db.inPortions(ctx, forgetExecutions, func(ctx context.Context, x *tx) (int, error) {
		return deleteExecutions(ctx, x, t)
	})
	if err == nil {
		err = db.writer.write(ctx, func(ctx context.Context, x *tx) error { return deleteRules(ctx, x, t) })
	}
	if err == nil {
		_, err = db.inPortions(ctx, forgetAudit, func(ctx context.Context, x *tx) (int, error) {
			return deleteAudit(ctx, x, t)
		})
	}
	if err == nil {
		err = db.writer.write(ctx, func(ctx context.Context, x *tx) error { return forgetBudgets(ctx, x, t) })
	}
	return executions, failed("delete old executions", err)
}

// inPortions repeats do until it finds less than a full portion.
func (db *DB) inPortions(ctx context.Context, size int, do func(context.Context, *tx) (int, error)) (total int, err error) {
	for n := size; n == size; total += n {
		err = db.writer.write(ctx, func(ctx context.Context, t *tx) error {
			n, err = do(ctx, t)
			return err
		})
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

func deleteExecutions(ctx context.Context, t *tx, before time.Time) (int, error) {
	type old struct {
		number int64
		task   string
	}
	found, err := list(ctx, t, func(o *old) []any { return []any{&o.number, &o.task} }, `SELECT number, task_id FROM executions
		WHERE ended_at IS NOT NULL AND logs_deleted = 1 AND ended_at < ? ORDER BY ended_at LIMIT ?`, moment{&before}, forgetExecutions)
	if err != nil || len(found) == 0 {
		return 0, err
	}
	numbers, tasks := make([]int64, 0, len(found)), make([]string, 0, len(found))
	for _, o := range found {
		numbers, tasks = append(numbers, o.number), append(tasks, o.task)
	}
	if _, err := t.exec(ctx, `DELETE FROM executions WHERE number IN (SELECT value FROM json_each(?))`, document{numbers}); err != nil {
		return 0, err
	}
	_, err = t.exec(ctx, `DELETE FROM tasks WHERE id IN (SELECT value FROM json_each(?))
		AND NOT EXISTS (SELECT 1 FROM executions WHERE task_id = tasks.id)`, document{tasks})
	return len(found), err
}

func deleteAudit(ctx context.Context, t *tx, before time.Time) (int, error) {
	n, err := t.exec(ctx, `DELETE FROM audit WHERE id IN (
		SELECT id FROM audit WHERE at < ?
			AND NOT EXISTS (SELECT 1 FROM executions WHERE id = audit.object)
			AND NOT EXISTS (SELECT 1 FROM tasks WHERE id = audit.object)
		LIMIT ?)`, moment{&before}, forgetAudit)
	return int(n), err
}
