package web

import (
	"context"
	"net/http"
	"time"

	"github.com/threadmill/threadmill/bot/web/api"
)

// changePause is the least time between two events of a stream of changes: a list that
// is read again four times a second is live enough.
const changePause = 250 * time.Millisecond

// streamChanges tells that something about executions, approvals or tasks has changed,
// for whoever shows lists of them. It does not say what: a client that was away for a
// while has missed nothing once it has read its lists again.
func (s *Server) streamChanges(w http.ResponseWriter, r *http.Request) {
	if err := readQuery(r).done(); err != nil {
		s.fail(w, r, err)
		return
	}
	bell, stop := s.engine.Watch("")
	defer stop()
	defer s.metrics.stream(streamChange)()
	out, going := startEvents(w, r)
	if !going {
		return
	}
	s.streamed(r, s.announce(r.Context(), bell, out))
}

// announce sends an event at once and one after each change.
func (s *Server) announce(ctx context.Context, bell <-chan struct{}, out *events) error {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		if err := out.event(api.EventChange, noID, api.ChangeEvent{}); err != nil {
			return err
		}
		if err := out.flush(); err != nil {
			return err
		}
		pause.Reset(changePause)
		if err := await(ctx, s, pause.C, beat.C, out); err != nil {
			return err
		}
		if err := await(ctx, s, bell, beat.C, out); err != nil {
			return err
		}
	}
}

// await waits for something and keeps the connection alive meanwhile.
func await[T any](ctx context.Context, s *Server, what <-chan T, beat <-chan time.Time, out *events) error {
	for {
		select {
		case <-what:
			return nil
		case <-beat:
			if err := out.beat(); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		case <-s.stopping:
			return errStopping
		}
	}
}
