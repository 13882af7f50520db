package engine

import (
	"context"
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
			e.log.Error("heartbeats could not be noted", "error", err)
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
				e.log.Debug("nothing to commit", "execution", r.id, "error", err) // it has just ended
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
			e.log.Error("old executions could not be removed", "error", err)
		}
	})
}

// Retain removes what is older than the catalog's retention now.
func (e *Engine) Retain(ctx context.Context) error {
	keep := e.catalog.Load().Retention
	now := e.now().UTC()
	if keep.Logs > 0 {
		if err := e.removeFiles(ctx, now.Add(-keep.Logs)); err != nil {
			return err
		}
	}
	if keep.Executions == 0 {
		return nil
	}
	before := now.Add(-keep.Executions)
	if err := e.removeFiles(ctx, before); err != nil { // rows never go before files
		return err
	}
	n, err := e.store.DeleteBefore(ctx, before)
	if n > 0 {
		e.log.Info("old executions removed", "count", n)
	}
	return err
}

func (e *Engine) removeFiles(ctx context.Context, before time.Time) error {
	for {
		old, err := e.store.LogsBefore(ctx, before, retentionBatch)
		if err != nil || len(old) == 0 {
			return err
		}
		ids := make([]string, 0, len(old))
		for _, x := range old {
			if err := e.host.Remove(ctx, x.ID); err != nil {
				return err
			}
			ids = append(ids, x.ID)
		}
		if err := e.store.LogsDeleted(ctx, ids); err != nil {
			return err
		}
	}
}
