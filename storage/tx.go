package storage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// tx is the open transaction on the writing connection, with every statement that
// was ever prepared on it. The texts are constants, so there is a bounded number.
type tx struct {
	conn  *sql.Conn
	stmts map[string]*sql.Stmt
	open  bool
}

func (t *tx) begin(ctx context.Context) error {
	_, err := t.exec(ctx, "BEGIN IMMEDIATE")
	t.open = err == nil
	return err
}

// end runs a COMMIT or what moves a savepoint.
func (t *tx) end(ctx context.Context, text string) error {
	_, err := t.exec(ctx, text)
	if err == nil && text == "COMMIT" {
		t.open = false
	}
	return err
}

// abort gives up the transaction. SQLite has already done so after some failures,
// such as a full disk.
func (t *tx) abort(ctx context.Context) error {
	if !t.open {
		return nil
	}
	t.open = false
	_, err := t.exec(ctx, "ROLLBACK")
	return err
}

func (t *tx) close() error {
	var errs []error
	for _, s := range t.stmts {
		errs = append(errs, s.Close())
	}
	clear(t.stmts)
	if err := t.conn.Close(); !errors.Is(err, sql.ErrConnDone) {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (t *tx) stmt(ctx context.Context, text string) (*sql.Stmt, error) {
	if s, ok := t.stmts[text]; ok {
		return s, nil
	}
	s, err := t.conn.PrepareContext(ctx, text)
	if err != nil {
		return nil, fmt.Errorf("prepare a statement: %w", err)
	}
	t.stmts[text] = s
	return s, nil
}

// exec runs a statement and returns how many rows it changed.
func (t *tx) exec(ctx context.Context, text string, args ...any) (int64, error) {
	s, err := t.stmt(ctx, text) //nolint:sqlclosecheck // kept for the next time; close closes it
	if err != nil {
		return 0, err
	}
	res, err := s.ExecContext(ctx, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

func (t *tx) query(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	s, err := t.stmt(ctx, text) //nolint:sqlclosecheck // kept for the next time; close closes it
	if err != nil {
		return nil, err
	}
	return s.QueryContext(ctx, args...)
}
