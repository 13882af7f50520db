package storage

import (
	"context"
	"time"

	"github.com/threadmill/threadmill/engine"
)

// AddLink stores the hash of a link that signs a browser in until it expires.
func (db *DB) AddLink(ctx context.Context, hash []byte, expires time.Time) error {
	err := db.writer.write(ctx, func(ctx context.Context, t *tx) error {
		if err := forgetExpired(ctx, t, db.now()); err != nil {
			return err
		}
		_, err := t.exec(ctx, `INSERT INTO links (hash, expires_at) VALUES (?, ?)`, hash, moment{&expires})
		return err
	})
	return failed("store the link", err)
}

// SpendLink makes a session of a link, which is then gone. A link that does not exist,
// was used or has expired is CodeUnauthorized.
func (db *DB) SpendLink(ctx context.Context, link, session []byte, expires time.Time, by engine.Audit) error {
	err := db.writer.write(ctx, func(ctx context.Context, t *tx) error {
		now := db.now()
		if err := forgetExpired(ctx, t, now); err != nil {
			return err
		}
		n, err := t.exec(ctx, `DELETE FROM links WHERE hash = ?`, link)
		if err != nil {
			return err
		}
		if n == 0 {
			return engine.Errorf(engine.CodeUnauthorized, "this link was used already or has expired: `threadmill link` makes a new one")
		}
		_, err = t.exec(ctx, `INSERT INTO sessions (hash, created_at, expires_at) VALUES (?, ?, ?)`, session, moment{&now}, moment{&expires})
		if err != nil {
			return err
		}
		return insertAudit(ctx, t, by)
	})
	return failed("sign the browser in", err)
}

// Session returns when a session expires; one that does not exist any more is
// CodeUnauthorized.
func (db *DB) Session(ctx context.Context, hash []byte) (expires time.Time, err error) {
	found, ok, err := first(ctx, db.reader, func(t *time.Time) []any { return []any{moment{t}} },
		`SELECT expires_at FROM sessions WHERE hash = ?`, hash)
	if err == nil && (!ok || !found.After(db.now())) {
		err = engine.Errorf(engine.CodeUnauthorized, "this browser is not signed in any more: `threadmill link` makes a link that signs it in")
	}
	return found, failed("read the session", err)
}

// ExtendSession makes a session expire later. One that is gone stays so.
func (db *DB) ExtendSession(ctx context.Context, hash []byte, expires time.Time) error {
	err := db.writer.write(ctx, func(ctx context.Context, t *tx) error {
		_, err := t.exec(ctx, `UPDATE sessions SET expires_at = max(expires_at, ?) WHERE hash = ?`, moment{&expires}, hash)
		return err
	})
	return failed("extend the session", err)
}

// EndSession signs a browser out. It may have been before.
func (db *DB) EndSession(ctx context.Context, hash []byte, by engine.Audit) error {
	err := db.writer.write(ctx, func(ctx context.Context, t *tx) error {
		n, err := t.exec(ctx, `DELETE FROM sessions WHERE hash = ?`, hash)
		if err != nil || n == 0 {
			return err
		}
		return insertAudit(ctx, t, by)
	})
	return failed("end the session", err)
}

// forgetExpired removes what is of no use any more; whoever adds something does it.
func forgetExpired(ctx context.Context, t *tx, now time.Time) error {
	if _, err := t.exec(ctx, `DELETE FROM links WHERE expires_at <= ?`, moment{&now}); err != nil {
		return err
	}
	_, err := t.exec(ctx, `DELETE FROM sessions WHERE expires_at <= ?`, moment{&now})
	return err
}
