package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/threadmill/threadmill/engine/rundir"
)

const (
	heartbeatInterval = 30 * time.Second
	pingTimeout       = 2 * time.Second
	pingsAtOnce       = 16
	retentionInterval = time.Hour
	retentionBatch    = 100
)

// heartbeat notes, every 30 seconds, which runners answer, and commits what was read
// without an effect.
func (e *Engine) heartbeat(ctx context.Context) {
	every(ctx, heartbeatInterval, func(ctx context.Context) {
		alive := e.ping(ctx, e.runs())
		if len(alive) == 0 {
			return
		}
		if err := e.store.Heartbeat(ctx, alive, e.now().UTC()); err != nil && ctx.Err() == nil {
			e.log.ErrorContext(ctx, "heartbeats could not be noted", "error", err)
		}
	})
}

// ping asks runners whether they are there and returns the ids of those that are.
func (e *Engine) ping(ctx context.Context, runs []*run) []string {
	var (
		mu    sync.Mutex
		alive []string
		wg    sync.WaitGroup
		slots = make(chan struct{}, pingsAtOnce)
	)
	for _, r := range runs {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			bounded, cancel := context.WithTimeout(ctx, pingTimeout)
			defer cancel()
			if _, err := e.host.Do(bounded, r.id, rundir.Command{ID: rundir.NewID(), Op: rundir.OpPing}); err != nil {
				return
			}
			if err := e.flush(ctx, r); err != nil && ctx.Err() == nil {
				e.log.DebugContext(ctx, "nothing to commit", "execution", r.id, "error", err) // it has just ended
			}
			mu.Lock()
			defer mu.Unlock()
			alive = append(alive, r.id)
		})
	}
	wg.Wait()
	return alive
}

// retain forgets, once an hour, what is older than the catalog says: first the files
// of an execution, later its rows.
func (e *Engine) retain(ctx context.Context) {
	every(ctx, retentionInterval, func(ctx context.Context) {
		if err := e.Retain(ctx); err != nil && ctx.Err() == nil {
			e.log.ErrorContext(ctx, "old executions could not be removed", "error", err)
		}
	})
}

// Retain removes what is older than the catalog's retention now.
func (e *Engine) Retain(ctx context.Context) error {
	keep := e.catalog.Load().Retention
	now := e.now().UTC()
	var errs error
	if keep.Logs > 0 {
		errs = e.removeFiles(ctx, now.Add(-keep.Logs))
	}
	if keep.Executions == 0 {
		return errs
	}
	before := now.Add(-keep.Executions)
	errs = errors.Join(errs, e.removeFiles(ctx, before))
	n, err := e.store.DeleteBefore(ctx, before) // only those whose files are gone
	if n > 0 {
		e.log.InfoContext(ctx, "old executions removed", "count", n)
	}
	return errors.Join(errs, err)
}

func (e *Engine) removeFiles(ctx context.Context, before time.Time) error {
	for {
		old, err := e.store.LogsBefore(ctx, before, retentionBatch)
		if err != nil || len(old) == 0 {
			return err
		}
		ids, err := e.remove(ctx, old)
		if stored := e.store.LogsDeleted(ctx, ids); stored != nil || err != nil {
			return errors.Join(err, stored)
		}
	}
}

// remove deletes the files of executions. One whose files cannot be deleted keeps
// nobody else's.
func (e *Engine) remove(ctx context.Context, old []Execution) (ids []string, err error) {
	for _, x := range old {
		if failed := e.host.Remove(ctx, x.ID); failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		ids = append(ids, x.ID)
	}
	return ids, err
}
