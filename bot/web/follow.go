package web

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/threadmill/threadmill/bot/web/api"
	"github.com/threadmill/threadmill/engine"
)

// sink is the client's end of a stream.
type sink interface {
	// status says where the execution stands.
	status(x engine.Execution) error
	// pump passes on everything that is new; final: nothing more will come.
	pump(ctx context.Context, final bool) error
	// beat keeps the connection alive.
	beat() error
	// done says how the execution ended. It is the last call.
	done(x engine.Execution) error
}

// errStopping ends streams when the service stops; their clients come back.
var errStopping = errors.New("the service is stopping")

// follow feeds a sink until the execution has ended, the client has gone or the
// service stops. It sleeps until a bell rings, and what a slow client does not take
// waits in the files: nobody else waits for it.
func (s *Server) follow(ctx context.Context, x engine.Execution, files engine.Files, to sink) error {
	changed, stopFiles := files.Changed()
	defer stopFiles()
	row, stopRow := s.engine.Watch(x.ID)
	defer stopRow()
	x, err := s.engine.Execution(ctx, x.ID) // again: it may have changed before the bell was hung up
	if err != nil {
		return err
	}
	w := waiter{s: s, changed: changed, row: row, beat: time.NewTicker(heartbeat)}
	defer w.beat.Stop()
	if err := to.status(x); err != nil {
		return err
	}
	for {
		final := x.Status.Ended() // looked at before the pump: what it reads then is all there is
		if err := to.pump(ctx, final); err != nil {
			return err
		}
		if final {
			return to.done(x)
		}
		if x, err = w.next(ctx, x, to); err != nil {
			return err
		}
	}
}

// waiter waits for something to happen to an execution.
type waiter struct {
	s       *Server
	changed <-chan struct{}
	row     <-chan struct{}
	beat    *time.Ticker
}

// next returns when there may be something new, with the execution as it is then.
func (w *waiter) next(ctx context.Context, x engine.Execution, to sink) (engine.Execution, error) {
	select {
	case <-ctx.Done():
		return x, ctx.Err()
	case <-w.s.stopping:
		return x, errStopping
	case _, open := <-w.changed:
		if !open {
			w.changed = nil // the heartbeat still looks
		}
		return x, nil
	case _, open := <-w.row:
		if !open {
			w.row = nil
		}
	case <-w.beat.C:
		if err := to.beat(); err != nil {
			return x, err
		}
	}
	return w.reload(ctx, x, to)
}

// reload reads the execution again and tells the sink where it changed.
func (w *waiter) reload(ctx context.Context, old engine.Execution, to sink) (engine.Execution, error) {
	x, err := w.s.engine.Execution(ctx, old.ID)
	if err != nil {
		return old, err
	}
	if x.Status == old.Status && x.Activity == old.Activity {
		return x, nil
	}
	return x, to.status(x)
}

// output finds an execution and what it has written.
func (s *Server) output(ctx context.Context, ref string) (engine.Execution, engine.Files, error) {
	x, err := s.engine.Execution(ctx, ref)
	if err != nil {
		return x, nil, err
	}
	if x.LogsDeleted {
		return x, nil, engine.Errorf(engine.CodeNotFound, "the files of execution #%d were removed, as the retention says", x.Number)
	}
	files, err := s.engine.Files(ctx, x.ID)
	return x, files, err
}

// lastEvent is where a client wants to go on: what it saw last, or a parameter.
func lastEvent(r *http.Request, q *query, parameter string) int64 {
	from := q.number(parameter, 0, 0, 1<<53)
	seen := r.Header.Get("Last-Event-ID")
	if seen == "" {
		return from
	}
	n, err := strconv.ParseInt(seen, 10, 64)
	if err != nil || n < 0 {
		q.problem("the Last-Event-ID %q is not one of this stream", seen)
	}
	return n
}

// streamed notes how a stream ended where that is of interest. The answer has begun,
// so the connection is cut; a client that resumes loses nothing.
func (s *Server) streamed(r *http.Request, err error) {
	switch {
	case err == nil, errors.Is(err, errStopping):
		return
	case r.Context().Err() != nil:
		s.log.DebugContext(r.Context(), "stream ended by the client", "path", r.URL.Path)
	case disconnected(err):
		s.log.DebugContext(r.Context(), "stream ended by the connection", "path", r.URL.Path, "error", err)
	default:
		s.reference(r, "error", err)
	}
	panic(http.ErrAbortHandler)
}

// disconnected reports whether a connection broke, or its client does not read.
func disconnected(err error) bool {
	var network *net.OpError
	return errors.As(err, &network) || errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) ||
		errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded)
}

func statusEvent(x engine.Execution) api.StatusEvent {
	return api.StatusEvent{ExecutionID: x.ID, Number: x.Number, Status: x.Status, Activity: x.Activity}
}

func doneEvent(x engine.Execution) api.DoneEvent {
	return api.DoneEvent{Status: x.Status, Reason: x.Reason, Error: x.Error, ExitCode: x.ExitCode}
}
