package storage

import (
	"cmp"
	"context"

	"github.com/threadmill/threadmill/engine"
)

const (
	taskColumns = `id, title, context, docs_path, capability_id, status, error, tail, created_by, created_at, updated_at`
	insertTask  = `INSERT INTO tasks (` + taskColumns + `) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO `
)

func taskFields(t *engine.Task) []any {
	return []any{
		&t.ID, &t.Title, &t.Context, &t.DocsPath, &t.CapabilityID, &t.Status, &t.Error,
		document{&t.Tail},
		&t.CreatedBy,
		moment{&t.CreatedAt},
		moment{&t.UpdatedAt},
	}
}

// CreateTask stores a task that somebody made.
func (db *DB) CreateTask(ctx context.Context, k engine.Task, a engine.Audit) error {
	k.Status = cmp.Or(k.Status, engine.Todo)
	err := db.writer.write(ctx, func(ctx context.Context, t *tx) error {
		n, err := t.exec(ctx, insertTask+`NOTHING`, taskFields(&k)...)
		if err != nil {
			return err
		}
		if n == 0 {
			return engine.Errorf(engine.CodeConflict, "there is a task %s already", k.ID)
		}
		return insertAudit(ctx, t, a)
	})
	return failed("store the task", err)
}

// takeTask puts the task of a new execution in progress, and stores it first where it
// is new.
func takeTask(ctx context.Context, t *tx, n engine.NewExecution) error {
	k := n.Task
	if k.ID == "" {
		return moveOn(ctx, t, n.Execution)
	}
	k.Status, k.Error, k.UpdatedAt = engine.InProgress, "", n.Execution.CreatedAt
	_, err := t.exec(ctx, insertTask+`UPDATE SET
		status = excluded.status, error = excluded.error, updated_at = excluded.updated_at`, taskFields(&k)...)
	return err
}

func moveOn(ctx context.Context, t *tx, e engine.Execution) error {
	n, err := t.exec(ctx, `UPDATE tasks SET status = 'in_progress', error = '', updated_at = ? WHERE id = ?`, moment{&e.CreatedAt}, e.TaskID)
	if err == nil && n == 0 {
		err = noTask(e.TaskID)
	}
	return err
}

func noTask(id string) error { return engine.Errorf(engine.CodeNotFound, "there is no task %q", id) }

// Task finds one by its id.
func (db *DB) Task(ctx context.Context, id string) (engine.Task, error) {
	k, ok, err := first(ctx, db.reader, taskFields, `SELECT `+taskColumns+` FROM tasks WHERE id = ?`, id)
	if err == nil && !ok {
		err = noTask(id)
	}
	return k, failed("read the task", err)
}

// Tasks returns a page, newest first, and how many match.
func (db *DB) Tasks(ctx context.Context, status engine.TaskStatus, number, size int) (found []engine.Task, total int, err error) {
	where, args := "", []any(nil)
	if status != "" {
		where, args = ` WHERE status = ?`, []any{status}
	}
	limit, offset := page(number, size, 50, 200)
	err = db.reader.snapshot(ctx, func(q querier) error {
		total, _, err = first(ctx, q, itself[int], `SELECT count(*) FROM tasks`+where, args...)
		if err != nil {
			return err
		}
		found, err = list(ctx, q, taskFields, `SELECT `+taskColumns+` FROM tasks`+where+
			` ORDER BY created_at DESC, id DESC LIMIT ? OFFSET ?`, append(args, limit, offset)...)
		return err
	})
	return found, total, failed("list the tasks", err)
}
