package web

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/threadmill/threadmill/bot/web/api"
	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/agent"
)

// maxTail bounds how many last lines may be asked for.
const maxTail = 100_000

// downloadLog sends the log as it is at this moment, or a range of it.
func (s *Server) downloadLog(w http.ResponseWriter, r *http.Request) {
	q := readQuery(r)
	tail := q.number("tail", 0, 1, maxTail)
	if err := q.done(); err != nil {
		s.fail(w, r, err)
		return
	}
	x, files, err := s.output(r.Context(), r.PathValue("id"))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	feed := newLogFeed(files.OpenLog)
	defer func() { _ = feed.close() }() // it was only read
	content, err := snapshot(feed, tail)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="threadmill-%d.log"`, x.Number))
	http.ServeContent(newPatientWriter(w), r, "", time.Time{}, content)
}

// snapshot is the log up to its present end, or its last lines.
func snapshot(feed *logFeed, tail int64) (io.ReadSeeker, error) {
	size, err := feed.length()
	if err != nil {
		return nil, err
	}
	if size == 0 {
		return strings.NewReader(""), nil
	}
	var from int64
	if tail > 0 {
		if from, err = tailStart(feed.log, size, tail); err != nil {
			return nil, err
		}
	}
	return io.NewSectionReader(feed.log, from, size-from), nil
}

// patientWriter bounds each write instead of the whole answer: a large log may take
// long, a client that reads nothing may not.
type patientWriter struct {
	http.ResponseWriter
	rc *http.ResponseController
}

func newPatientWriter(w http.ResponseWriter) *patientWriter {
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Time{}) // the request is read; net/http watches for its end
	return &patientWriter{ResponseWriter: w, rc: rc}
}

// Write sends b within the bound.
func (w *patientWriter) Write(b []byte) (int, error) {
	_ = w.rc.SetWriteDeadline(time.Now().Add(writeTimeout)) // without it the answer's own bound holds
	return w.ResponseWriter.Write(b)
}

// streamLog sends the log as events, and goes on as it grows.
func (s *Server) streamLog(w http.ResponseWriter, r *http.Request) {
	x, files, feed, err := s.openFeed(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	defer func() { _ = feed.close() }() // it was only read
	size, err := feed.length()
	if err != nil {
		s.fail(w, r, err)
		return
	}
	defer s.metrics.stream(streamLogs)()
	out, going := startEvents(w, r)
	if !going {
		return
	}
	s.streamed(r, s.follow(r.Context(), x, files, &logEvents{out: out, feed: feed, old: size}))
}

// openFeed opens the log that a request names, at the place where it wants to begin.
func (s *Server) openFeed(r *http.Request) (engine.Execution, engine.Files, *logFeed, error) {
	q := readQuery(r)
	tail := q.number("tail", 0, 1, maxTail)
	from := lastEvent(r, q, "offset")
	if err := q.done(); err != nil {
		return engine.Execution{}, nil, nil, err
	}
	x, files, err := s.output(r.Context(), r.PathValue("id"))
	if err != nil {
		return x, nil, nil, err
	}
	feed := newLogFeed(files.OpenLog)
	if tail > 0 && r.Header.Get("Last-Event-ID") == "" {
		err = feed.seekTail(tail)
	} else {
		err = feed.seek(from)
	}
	if err != nil {
		_ = feed.close() // it was only read
	}
	return x, files, feed, err
}

// logEvents is a log as a stream of events.
type logEvents struct {
	out  *events
	feed *logFeed
	old  int64 // what was there when the client came ends here
	live bool  // that much was sent
}

func (l *logEvents) status(x engine.Execution) error {
	if err := l.out.event(api.EventStatus, noID, statusEvent(x)); err != nil {
		return err
	}
	return l.out.flush()
}

func (l *logEvents) beat() error { return l.out.beat() }

func (l *logEvents) pump(ctx context.Context, final bool) error {
	for more := true; more; {
		var err error
		if more, err = l.feed.fill(); err != nil {
			return err
		}
		if err := l.feed.each(final && !more, l.send); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	if err := l.caughtUp(l.feed.off); err != nil {
		return err
	}
	return l.out.flush()
}

func (l *logEvents) send(p piece) error {
	name := api.EventLog
	if !l.live && p.begin < l.old {
		name = api.EventCatchup
	} else if err := l.caughtUp(p.begin); err != nil {
		return err
	}
	return l.out.event(name, p.end, api.LogEvent{Content: string(p.text), Stream: p.stream})
}

// caughtUp tells once that all which comes now is new.
func (l *logEvents) caughtUp(off int64) error {
	if l.live {
		return nil
	}
	l.live = true
	return l.out.event(api.EventCatchup, off, api.LogEvent{Stream: agent.Stdout, Complete: true})
}

func (l *logEvents) done(x engine.Execution) error {
	if err := l.out.event(api.EventDone, l.feed.off, doneEvent(x)); err != nil {
		return err
	}
	return l.out.flush()
}
