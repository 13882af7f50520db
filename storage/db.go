package storage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"modernc.org/sqlite"

	"github.com/threadmill/threadmill/engine"
)

var _ engine.Store = (*DB)(nil)

const (
	databaseFile = "threadmill.db"
	readers      = 4
)

// DB is the service's database. It implements the engine's Store.
type DB struct {
	writer *writer
	reader *reader
	now    func() time.Time
	lock   *Lock // nil: the caller's
}

// Option changes how a database is opened.
type Option func(*options)

type options struct {
	lock *Lock
	now  func() time.Time
}

// WithLock opens the database under a lock that the caller holds and keeps.
func WithLock(l *Lock) Option { return func(o *options) { o.lock = l } }

// WithClock replaces the clock, which is used where a change does not say its time.
func WithClock(now func() time.Time) Option { return func(o *options) { o.now = now } }

// Open locks the data directory dir and opens the database in it, made or migrated
// as needed. The context bounds the opening only; the database works until Close.
func Open(ctx context.Context, dir string, opts ...Option) (*DB, error) {
	o := options{now: time.Now}
	for _, opt := range opts {
		opt(&o)
	}
	db := &DB{now: o.now}
	if o.lock == nil {
		l, err := AcquireLock(dir)
		if err != nil {
			return nil, err
		}
		db.lock = l
	}
	if err := db.open(ctx, dir); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

func (db *DB) open(ctx context.Context, dir string) error {
	path, err := filepath.Abs(filepath.Join(dir, databaseFile))
	if err != nil {
		return fmt.Errorf("find the database: %w", err)
	}
	if err := makeFiles(path); err != nil {
		return err
	}
	if db.writer, err = openWriter(ctx, path); err != nil {
		return err
	}
	if err := db.writer.exclusively(ctx, migrate); err != nil {
		return fmt.Errorf("open the database %s: %w", path, err)
	}
	db.writer.start(ctx)
	db.reader, err = openReader(path)
	return err
}

// Close ends all work on the database and gives the directory free. It may be
// called twice.
func (db *DB) Close() error {
	var errs []error
	if db.reader != nil {
		errs = append(errs, db.reader.close())
	}
	if db.writer != nil {
		errs = append(errs, db.writer.close()) // the last one: it checkpoints the WAL
	}
	if db.lock != nil {
		errs = append(errs, db.lock.Release())
	}
	return errors.Join(errs...)
}

// makeFiles creates the database file before SQLite does, so that nobody else can
// read it, and narrows what an earlier umask left; the files beside it get the same.
func makeFiles(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("make the database: %w", err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("make the database: %w", err)
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Chmod(path+suffix, 0o600); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("make the database private: %w", err)
		}
	}
	return nil
}

// openPool opens a pool in which every connection has the given settings.
func openPool(path string, settings url.Values) (*sql.DB, error) {
	settings.Set("_busy_timeout", "5000") // somebody may look with the sqlite3 program
	settings.Set("_foreign_keys", "on")
	settings.Set("_dqs", "0")
	settings.Add("_pragma", "temp_store(memory)")
	dsn := url.URL{Scheme: "file", Path: path, RawQuery: settings.Encode()}
	connector, err := sqlite.NewConnector(dsn.String())
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	return sql.OpenDB(connector), nil
}
