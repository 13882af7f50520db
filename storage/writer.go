package storage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"sync"
)

// maxBatch bounds how many writes share a transaction, and so how long the first of
// them waits for the last.
const maxBatch = 128

var errClosed = errors.New("the database is closed")

// writer owns the one connection that writes. Its goroutine takes whatever is waiting
// and commits it as one transaction. A later need for synchronous=FULL (an inbox that
// promises to survive a power cut) is a property of a job: a batch that holds one
// would set it before it begins.
type writer struct {
	db   *sql.DB
	tx   *tx
	jobs chan *job
	quit chan struct{}
	once sync.Once
	wg   sync.WaitGroup
}

// job is one caller's write.
type job struct {
	ctx  context.Context //nolint:containedctx // travels to the goroutine that does the work
	do   func(context.Context, *tx) error
	done chan error
}

func openWriter(ctx context.Context, path string) (*writer, error) {
	db, err := openPool(path, url.Values{
		"_journal_mode": {"WAL"},
		"_synchronous":  {"NORMAL"},
		"_pragma":       {"journal_size_limit(16777216)"},
	})
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the database: %w", err), db.Close())
	}
	return &writer{
		db: db, tx: &tx{conn: conn, stmts: map[string]*sql.Stmt{}},
		jobs: make(chan *job), quit: make(chan struct{}),
	}, nil
}

// exclusively runs do on the connection before the writer is started.
func (w *writer) exclusively(ctx context.Context, do func(context.Context, *tx) error) error {
	return do(ctx, w.tx)
}

func (w *writer) start(ctx context.Context) {
	ctx = context.WithoutCancel(ctx) // it works until close
	w.wg.Go(func() {
		for {
			select {
			case <-w.quit:
				return
			case first := <-w.jobs:
				w.commit(ctx, w.gather(first))
			}
		}
	})
}

func (w *writer) close() error {
	w.once.Do(func() { close(w.quit) })
	w.wg.Wait()
	return errors.Join(w.tx.close(), w.db.Close())
}

// write runs do in a transaction and returns when it is committed. The context ends
// the wait for the writer's turn; a write that has begun is carried to its end, so
// its outcome is never unknown.
func (w *writer) write(ctx context.Context, do func(context.Context, *tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	j := &job{ctx: context.WithoutCancel(ctx), do: do, done: make(chan error, 1)}
	select {
	case w.jobs <- j:
		return <-j.done
	case <-ctx.Done():
		return ctx.Err()
	case <-w.quit:
		return errClosed
	}
}

// gather adds everybody who is waiting now to the first.
func (w *writer) gather(first *job) []*job {
	batch := []*job{first}
	for len(batch) < maxBatch {
		select {
		case j := <-w.jobs:
			batch = append(batch, j)
		default:
			return batch
		}
	}
	return batch
}

// commit runs a batch as one transaction. A job that fails is undone alone; what
// breaks the transaction itself fails them all.
func (w *writer) commit(ctx context.Context, batch []*job) {
	outcomes := make([]error, len(batch))
	err := w.tx.begin(ctx)
	for i := 0; i < len(batch) && err == nil; i++ {
		outcomes[i], err = w.run(ctx, batch[i], len(batch) == 1)
	}
	if err == nil {
		err = w.tx.end(ctx, "COMMIT")
	}
	if err != nil {
		if failed := w.tx.abort(ctx); failed != nil {
			err = errors.Join(err, failed)
		}
	}
	for i, j := range batch {
		if err != nil {
			outcomes[i] = err
		}
		j.done <- outcomes[i]
	}
}

// run runs one job: own is its failure, broken that of the whole transaction. A job
// that is alone needs no savepoint: its failure ends the transaction.
func (w *writer) run(ctx context.Context, j *job, alone bool) (own, broken error) {
	if alone {
		return nil, j.do(j.ctx, w.tx)
	}
	if err := w.tx.end(ctx, "SAVEPOINT job"); err != nil {
		return nil, err
	}
	if own = j.do(j.ctx, w.tx); own != nil {
		if err := w.tx.end(ctx, "ROLLBACK TO job"); err != nil {
			return own, errors.Join(own, err)
		}
	}
	return own, w.tx.end(ctx, "RELEASE job")
}
