package storage

import (
	"context"
	"strings"

	"github.com/threadmill/threadmill/engine"
)

const auditColumns = `at, actor, action, object, allowed, detail`

func auditFields(a *engine.Audit) []any {
	return []any{moment{&a.At}, &a.Actor, &a.Action, &a.Object, &a.Allowed, object{&a.Detail}}
}

// AddAudit stores that somebody did something, or was not allowed to.
func (db *DB) AddAudit(ctx context.Context, a engine.Audit) error {
	if a.At.IsZero() {
		a.At = db.now()
	}
	err := db.writer.write(ctx, func(ctx context.Context, t *tx) error { return insertAudit(ctx, t, a) })
	return failed("store the audit row", err)
}

// insertAudit stores a unless it is empty.
func insertAudit(ctx context.Context, t *tx, a engine.Audit) error {
	if a.Action == "" {
		return nil
	}
	_, err := t.exec(ctx, `INSERT INTO audit (`+auditColumns+`) VALUES (?, ?, ?, ?, ?, ?)`, auditFields(&a)...)
	return err
}

// AuditTrail returns rows that match, newest first.
func (db *DB) AuditTrail(ctx context.Context, f engine.AuditFilter) ([]engine.Audit, error) {
	where, args := auditFilter(f)
	limit, _ := page(1, f.PageSize, 100, 500)
	found, err := list(ctx, db.reader, func(a *engine.Audit) []any { return append([]any{&a.ID}, auditFields(a)...) },
		`SELECT id, `+auditColumns+` FROM audit`+where+` ORDER BY id DESC LIMIT ?`, append(args, limit)...)
	return found, failed("read the audit trail", err)
}

func auditFilter(f engine.AuditFilter) (where string, args []any) {
	var terms []string
	if f.Object != "" {
		terms, args = append(terms, `object = ?`), append(args, f.Object)
	}
	if f.Actor != "" {
		terms, args = append(terms, `actor = ?`), append(args, f.Actor)
	}
	if f.Before > 0 {
		terms, args = append(terms, `id < ?`), append(args, f.Before)
	}
	if len(terms) == 0 {
		return "", nil
	}
	return ` WHERE ` + strings.Join(terms, ` AND `), args
}
