package storage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"sync"
)

// querier is what reads: the pool, a snapshot of it, or an open transaction.
type querier interface {
	query(ctx context.Context, text string, args ...any) (*sql.Rows, error)
}

// reader is the pool of connections that cannot write.
type reader struct {
	db *sql.DB

	mu    sync.Mutex
	stmts map[string]*sql.Stmt
}

func openReader(path string) (*reader, error) {
	db, err := openPool(path, url.Values{"_query_only": {"on"}})
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(readers)
	db.SetMaxIdleConns(readers)
	return &reader{db: db, stmts: map[string]*sql.Stmt{}}, nil
}

func (r *reader) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for _, s := range r.stmts {
		errs = append(errs, s.Close())
	}
	clear(r.stmts)
	return errors.Join(append(errs, r.db.Close())...)
}

// stmt prepares a query once. It does so outside the lock: preparing may wait for a
// connection.
func (r *reader) stmt(ctx context.Context, text string) (*sql.Stmt, error) {
	r.mu.Lock()
	s, ok := r.stmts[text]
	r.mu.Unlock()
	if ok {
		return s, nil
	}
	s, err := r.db.PrepareContext(ctx, text)
	if err != nil {
		return nil, fmt.Errorf("prepare a query: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if other, ok := r.stmts[text]; ok {
		return other, s.Close() //nolint:sqlclosecheck // somebody was faster
	}
	r.stmts[text] = s
	return s, nil
}

func (r *reader) query(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	s, err := r.stmt(ctx, text) //nolint:sqlclosecheck // kept for the next time; close closes it
	if err != nil {
		return nil, err
	}
	return s.QueryContext(ctx, args...)
}

// snapshot runs do on one unchanging state of the database, for answers that take
// more than one query.
func (r *reader) snapshot(ctx context.Context, do func(querier) error) error {
	t, err := r.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return fmt.Errorf("begin to read: %w", err)
	}
	defer t.Rollback() //nolint:errcheck // nothing was written
	return do(view{t})
}

// view is a snapshot. It prepares on its own connection alone: one that waited for a
// second one, for a shared statement, could wait for ever.
type view struct{ t *sql.Tx }

func (v view) query(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	return v.t.QueryContext(ctx, text, args...)
}

// list reads all rows of a query.
func list[T any](ctx context.Context, q querier, fields func(*T) []any, text string, args ...any) ([]T, error) {
	rows, err := q.query(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []T
	for rows.Next() {
		var v T
		if err := rows.Scan(fields(&v)...); err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, rows.Err()
}

// first reads the first row of a query; ok is false where there is none.
func first[T any](ctx context.Context, q querier, fields func(*T) []any, text string, args ...any) (v T, ok bool, err error) {
	rows, err := q.query(ctx, text, args...)
	if err != nil {
		return v, false, err
	}
	defer rows.Close()
	if !rows.Next() {
		return v, false, rows.Err()
	}
	if err := rows.Scan(fields(&v)...); err != nil {
		return v, false, err
	}
	return v, true, rows.Err()
}

// itself is the fields of a query with one column.
func itself[T any](v *T) []any { return []any{v} }

// page turns a page and its size into LIMIT and OFFSET; a size of 0 is normal.
func page(number, size, normal, most int) (limit, offset int) {
	if size <= 0 {
		size = normal
	}
	limit = min(size, most)
	const last = 1 << 40 // beyond it there is nothing, and nothing overflows
	return limit, (min(max(number, 1), last) - 1) * limit
}
