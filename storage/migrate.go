package storage

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"github.com/threadmill/threadmill/engine"
)

//go:embed migrations/*.sql
var embedded embed.FS

func migrate(ctx context.Context, t *tx) error { return migrateFrom(ctx, t, embedded) }

// migrateFrom brings the schema to what this binary needs, one transaction for each
// step. A schema of a newer binary is refused: writing to it could lose what only
// that one knows.
func migrateFrom(ctx context.Context, t *tx, migrations fs.FS) error {
	steps, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return err
	}
	slices.Sort(steps)
	have, err := schemaVersion(ctx, t)
	if err != nil {
		return err
	}
	if have > len(steps) {
		return engine.Errorf(engine.CodeUnavailable,
			"the database has version %d and this threadmill knows versions up to %d: it was written by a newer threadmill; install that one, or restore a backup from before the upgrade",
			have, len(steps))
	}
	for i, step := range steps[have:] {
		script, err := fs.ReadFile(migrations, step)
		if err != nil {
			return err
		}
		if err := apply(ctx, t, script, have+i+1); err != nil {
			return fmt.Errorf("migrate the database (%s): %w", path.Base(step), err)
		}
	}
	return nil
}

func schemaVersion(ctx context.Context, t *tx) (int, error) {
	var v int
	if err := t.conn.QueryRowContext(ctx, "PRAGMA user_version").Scan(&v); err != nil {
		return 0, fmt.Errorf("read the version of the database: %w", err)
	}
	return v, nil
}

// apply runs one step and notes its version in the same transaction.
func apply(ctx context.Context, t *tx, script []byte, version int) error {
	if err := t.begin(ctx); err != nil {
		return err
	}
	script = fmt.Appendf(script, "\nPRAGMA user_version = %d;", version)
	_, err := t.conn.ExecContext(ctx, string(script))
	if err == nil {
		err = t.end(ctx, "COMMIT")
	}
	if err != nil {
		return errors.Join(err, t.abort(context.WithoutCancel(ctx)))
	}
	return nil
}
