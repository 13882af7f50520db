package host

import (
	"context"
	"errors"
	"time"

	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/proc"
	"github.com/threadmill/threadmill/engine/rundir"
)

const (
	// coalesce is the pace of batches while entries flow without pause. After a quiet
	// moment the first one goes out at once.
	coalesce = 20 * time.Millisecond
	// maxBatch bounds a batch, so catching up after days holds no gigabytes.
	maxBatch = 512
	// sizesEvery is the pace of batches that only tell how the log grows.
	sizesEvery = time.Second
)

// Follow reads an execution's entries on from a cursor until the run has ended.
func (h *Host) Follow(ctx context.Context, id string, from rundir.Cursor, sink func(context.Context, engine.Batch) error) (rundir.Result, error) {
	dir, err := h.dir(id)
	if err != nil {
		return rundir.Result{}, err
	}
	events, err := rundir.OpenEventReader(dir, from)
	if err != nil {
		return rundir.Result{}, err
	}
	b, release := h.watcher.watch(dir)
	defer release()
	f := &follower{
		h: h, id: id, dir: dir, sink: sink, cursor: from, events: events,
		log: logGauge{dir: dir}, pane: paneKeeper{h: h, id: id, dir: dir}, began: time.Now(),
	}
	defer f.close()
	return f.run(ctx, b)
}

// follower is one call of Follow.
type follower struct {
	h       *Host
	id, dir string
	sink    func(context.Context, engine.Batch) error
	cursor  rundir.Cursor
	events  *rundir.EventReader
	log     logGauge
	pane    paneKeeper
	info    rundir.Info // zero until the runner has shown up
	began   time.Time
	told    time.Time // when the sink was last told of the log's size
}

func (f *follower) close() {
	_ = f.events.Close()
	f.log.close()
	f.h.links.drop(f.id, nil)
}

func (f *follower) run(ctx context.Context, b *bell) (rundir.Result, error) {
	for n := newsEvents | newsResult | newsPoll; ; n = b.take() {
		looked := time.Now()
		if n&(newsEvents|newsResult|newsPoll) != 0 {
			res, over, err := f.look(ctx, n)
			if over || err != nil {
				return res, err
			}
		}
		select {
		case <-b.ring:
		case <-ctx.Done():
			return rundir.Result{}, ctx.Err()
		}
		if err := until(ctx, looked.Add(coalesce)); err != nil {
			return rundir.Result{}, err
		}
	}
}

// look takes in whatever is new; over is true once the run has ended.
func (f *follower) look(ctx context.Context, n news) (res rundir.Result, over bool, err error) {
	if n&newsResult != 0 {
		// The result first: whatever was written before it is then there to be read.
		res, over, err = rundir.ReadResult(f.dir)
		if err != nil {
			return res, false, err
		}
		if over {
			return res, true, errors.Join(f.last(ctx, res.LastSeq), f.dropSecrets())
		}
	}
	if err := f.read(ctx); err != nil {
		return res, false, err
	}
	if n&newsPoll == 0 {
		return res, false, nil
	}
	if err := f.tellSizes(ctx); err != nil {
		return res, false, err
	}
	return f.checkLife(ctx)
}

// read passes on all complete entries that are new.
func (f *follower) read(ctx context.Context) error {
	for {
		entries, cursor, err := f.events.Next(maxBatch)
		if len(entries) > 0 {
			if err := f.pass(ctx, entries, cursor); err != nil {
				return err
			}
		}
		if err != nil || len(entries) < maxBatch {
			return err
		}
	}
}

func (f *follower) pass(ctx context.Context, entries []agent.Entry, cursor rundir.Cursor) error {
	b := engine.Batch{Entries: entries, Cursor: cursor, LogBytes: f.log.bytes, LogLines: f.log.lines()}
	if err := f.sink(ctx, b); err != nil {
		return sinkError{err}
	}
	f.cursor = cursor
	return nil
}

// sinkError keeps an error of the sink apart from those of the files.
type sinkError struct{ error }

func (e sinkError) Unwrap() error { return e.error }

// last passes on what a run left when it ended. A damaged events file must not keep
// the run from ever ending, so then its result stands without the entries behind the
// damage.
func (f *follower) last(ctx context.Context, lastSeq int64) error {
	err := f.read(ctx)
	var sink sinkError
	if errors.As(err, &sink) || ctx.Err() != nil {
		return err
	}
	if err != nil || f.cursor.Seq < lastSeq {
		f.h.log.ErrorContext(ctx, "entries of an ended run cannot be read", "execution", f.id,
			"read", f.cursor.Seq, "written", lastSeq, "error", err)
	}
	return nil
}

// tellSizes lets the sink know how the log grows while there are no entries.
func (f *follower) tellSizes(ctx context.Context) error {
	changed, err := f.log.measure()
	if err != nil {
		return err
	}
	if !changed || time.Since(f.told) < sizesEvery {
		return nil
	}
	f.told = time.Now()
	return f.pass(ctx, nil, f.cursor)
}

// checkLife finds out whether there still is a runner. No answer is no proof: only
// a process that does not exist, and left no result, is lost.
func (f *follower) checkLife(ctx context.Context) (res rundir.Result, over bool, err error) {
	if f.info.Version == 0 {
		info, started, err := rundir.ReadInfo(f.dir)
		if err != nil {
			return res, false, err
		}
		if !started {
			return res, false, f.checkStart(ctx)
		}
		f.info = info
		if err := f.dropSecrets(); err != nil {
			return res, false, err
		}
	}
	if proc.Alive(f.info.Pid, f.info.StartTime) {
		f.pane.keep(ctx, f.info)
		return res, false, nil
	}
	// The result is written just before the end: look again now that the end is certain.
	res, over, err = rundir.ReadResult(f.dir)
	if err != nil {
		return res, false, err
	}
	if err := f.last(ctx, res.LastSeq); err != nil {
		return res, false, err
	}
	if over {
		return res, true, nil
	}
	return res, false, engine.ErrRunnerLost
}

// dropSecrets removes what a launch has left that was repeated while the runner
// already started; the runner takes its own.
func (f *follower) dropSecrets() error { return f.h.forget(f.id, ".env") }

// checkStart gives up on a runner that never showed up.
func (f *follower) checkStart(ctx context.Context) error {
	if time.Since(f.began) < f.h.bounds.start || f.h.pane(ctx, f.id) != "" {
		return nil
	}
	return engine.ErrRunnerLost
}

// until returns at t, or earlier with the error of ctx.
func until(ctx context.Context, t time.Time) error {
	d := time.Until(t)
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
