package web

import (
	"context"
	"errors"
	"io/fs"
	"net/http"

	"github.com/threadmill/threadmill/bot/web/api"
	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/agent"
)

// entryBatch is how many entries are read at once.
const entryBatch = 200

func (s *Server) listEntries(r *http.Request) (answer, error) {
	q := readQuery(r)
	after := q.number("after", 0, 0, 1<<53)
	limit := int(q.number("limit", entryBatch, 1, 1000))
	if err := q.done(); err != nil {
		return answer{}, err
	}
	_, files, err := s.output(r.Context(), r.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	list, err := readEntries(r.Context(), files, after, limit)
	if err != nil {
		return answer{}, err
	}
	meta := &api.Meta{PageSize: limit, Next: after}
	if len(list) > 0 {
		meta.Next = list[len(list)-1].Seq
	}
	return answer{data: notNil(list), meta: meta}, nil
}

// readEntries reads entries; an execution that has not started has none.
func readEntries(ctx context.Context, files engine.Files, after int64, limit int) ([]agent.Entry, error) {
	reader, err := files.OpenEntries(ctx, after)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	return next(reader, limit)
}

func next(reader engine.EntryReader, limit int) ([]agent.Entry, error) {
	list, err := reader.Next(limit)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return list, err
}

// streamEntries sends entries as events, and goes on as they come.
func (s *Server) streamEntries(w http.ResponseWriter, r *http.Request) {
	q := readQuery(r)
	after := lastEvent(r, q, "after")
	if err := q.done(); err != nil {
		s.fail(w, r, err)
		return
	}
	x, files, err := s.output(r.Context(), r.PathValue("id"))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	reader, err := files.OpenEntries(r.Context(), after)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	defer reader.Close()
	defer s.metrics.stream(streamEntries)()
	out, going := startEvents(w, r)
	if !going {
		return
	}
	s.streamed(r, s.follow(r.Context(), x, files, &entryEvents{out: out, reader: reader, seq: after}))
}

// entryEvents is a sequence of entries as a stream of events.
type entryEvents struct {
	out    *events
	reader engine.EntryReader
	seq    int64 // of the last one that was sent
}

func (e *entryEvents) status(x engine.Execution) error {
	if err := e.out.event(api.EventStatus, noID, statusEvent(x)); err != nil {
		return err
	}
	return e.out.flush()
}

func (e *entryEvents) beat() error { return e.out.beat() }

func (e *entryEvents) pump(context.Context, bool) error {
	for {
		list, err := next(e.reader, entryBatch)
		if err != nil {
			return err
		}
		for i := range list {
			if err := e.out.event(api.EventEntry, list[i].Seq, &list[i]); err != nil {
				return err
			}
			e.seq = list[i].Seq
		}
		if len(list) < entryBatch {
			return e.out.flush()
		}
	}
}

func (e *entryEvents) done(x engine.Execution) error {
	if err := e.out.event(api.EventDone, e.seq, doneEvent(x)); err != nil {
		return err
	}
	return e.out.flush()
}
