package storage

import (
	"context"

	"github.com/threadmill/threadmill/engine"
)

const commandColumns = `execution_id, id, command, state, how, error, created_at, settled_at`

func commandFields(c *engine.Command) []any {
	return []any{
		&c.ExecutionID, &c.ID,
		document{&c.Command},
		&c.State, &c.How, &c.Error,
		moment{&c.CreatedAt},
		maybe{&c.SettledAt},
	}
}

// AddCommand stores an order to a runner.
func (db *DB) AddCommand(ctx context.Context, c engine.Command, a *engine.Audit) (stored engine.Command, created bool, err error) {
	if c.CreatedAt.IsZero() {
		c.CreatedAt = db.now()
	}
	err = db.writer.write(ctx, func(ctx context.Context, t *tx) error {
		stored, created, err = addCommand(ctx, t, c, a)
		return err
	})
	if err != nil {
		return engine.Command{}, false, failed("store the command", err)
	}
	return stored, created, nil
}

func addCommand(ctx context.Context, t *tx, c engine.Command, a *engine.Audit) (engine.Command, bool, error) {
	earlier, ok, err := commandByID(ctx, t, c.ExecutionID, c.ID)
	if err != nil || ok {
		return earlier, false, err
	}
	e, err := executionByID(ctx, t, c.ExecutionID)
	if err != nil {
		return engine.Command{}, false, err
	}
	if e.Status.Ended() {
		return engine.Command{}, false, already(e)
	}
	if err := insertCommand(ctx, t, c); err != nil {
		return engine.Command{}, false, err
	}
	if a != nil {
		if err := insertAudit(ctx, t, *a); err != nil {
			return engine.Command{}, false, err
		}
	}
	return commandByIDOrError(ctx, t, c.ExecutionID, c.ID)
}

func commandByIDOrError(ctx context.Context, q querier, executionID, id string) (engine.Command, bool, error) {
	c, ok, err := commandByID(ctx, q, executionID, id)
	if err == nil && !ok {
		err = engine.Errorf(engine.CodeNotFound, "there is no command %q", id)
	}
	return c, ok, err
}

func commandByID(ctx context.Context, q querier, executionID, id string) (engine.Command, bool, error) {
	return first(ctx, q, commandFields, `SELECT `+commandColumns+` FROM commands WHERE execution_id = ? AND id = ?`, executionID, id)
}

// insertCommand stores c unless an order with its id is there already.
func insertCommand(ctx context.Context, t *tx, c engine.Command) error {
	if c.State == "" {
		c.State = engine.Pending
	}
	_, err := t.exec(ctx, `INSERT INTO commands (`+commandColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (execution_id, id) DO NOTHING`, commandFields(&c)...)
	return err
}

// PendingCommands returns the orders that no runner acknowledged, in order.
func (db *DB) PendingCommands(ctx context.Context, executionID string) ([]engine.Command, error) {
	found, err := list(ctx, db.reader, commandFields, `SELECT `+commandColumns+` FROM commands
		WHERE execution_id = ? AND state IN ('pending', 'accepted') AND state = 'pending' ORDER BY seq`, executionID)
	return found, failed("list the pending commands", err)
}

// Commands returns all orders to an execution's runner, in order.
func (db *DB) Commands(ctx context.Context, executionID string) ([]engine.Command, error) {
	found, err := list(ctx, db.reader, commandFields, `SELECT `+commandColumns+` FROM commands
		WHERE execution_id = ? ORDER BY seq`, executionID)
	return found, failed("list the commands", err)
}

// SettleCommand notes the runner's answer. What came to rest stays as it is: a late
// answer neither takes back that a message was handed over nor revives one whose
// execution has ended; only how it was taken is still learned from it.
func (db *DB) SettleCommand(ctx context.Context, c engine.Command) error {
	if c.SettledAt == nil && c.State != engine.Accepted && c.State != engine.Pending {
		now := db.now()
		c.SettledAt = &now
	}
	err := db.writer.write(ctx, func(ctx context.Context, t *tx) error {
		return settleCommand(ctx, t, c)
	})
	return failed("settle the command", err)
}

func settleCommand(ctx context.Context, t *tx, c engine.Command) error {
	n, err := t.exec(ctx, `UPDATE commands SET state = ?, how = ?, error = ?, settled_at = ?
		WHERE execution_id = ? AND id = ? AND state IN ('pending', 'accepted')`,
		c.State, c.How, c.Error, maybe{&c.SettledAt}, c.ExecutionID, c.ID)
	if err != nil || n > 0 {
		return err
	}
	if _, err := t.exec(ctx, `UPDATE commands SET how = ?
		WHERE execution_id = ? AND id = ? AND state = 'handed' AND how = ''`, c.How, c.ExecutionID, c.ID); err != nil {
		return err
	}
	_, _, err = commandByIDOrError(ctx, t, c.ExecutionID, c.ID)
	return err
}
