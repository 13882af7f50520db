package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/threadmill/threadmill/bot/web/api"
	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/agent"
)

// Handlers is told what a stream says. Nil ones are left out; an error ends the
// stream and is returned.
type Handlers struct {
	Status func(api.StatusEvent) error
	Log    func(api.LogEvent) error  // [Client.Follow]
	Entry  func(agent.Entry) error   // [Client.FollowEntries]
	Done   func(api.DoneEvent) error // how it ended
	// Lost is told that the service went away. Following goes on by itself when it is
	// back: the execution outlives it.
	Lost func(error)
}

const (
	shortestPause = 100 * time.Millisecond
	longestPause  = 2 * time.Second
	// silence is how long a stream may say nothing: it sends heartbeats every 15 s.
	silence = 45 * time.Second
	// maxEvent bounds one event.
	maxEvent = 64 << 20
)

// Follow passes an execution's log to h, from its beginning to the execution's end.
// It comes back after the service was away, and nothing is passed on twice or lost.
func (c *Client) Follow(ctx context.Context, ref string, h Handlers) error {
	return c.follow(ctx, get("api", executions, ref, "logs", "stream"), h)
}

// FollowTail is Follow from the last lines on.
func (c *Client) FollowTail(ctx context.Context, ref string, lines int, h Handlers) error {
	q := url.Values{"tail": {strconv.Itoa(lines)}}
	return c.follow(ctx, get("api", executions, ref, "logs", "stream").with(q), h)
}

// FollowEntries passes an execution's entries after a sequence number to h, until the
// execution has ended.
func (c *Client) FollowEntries(ctx context.Context, ref string, after int64, h Handlers) error {
	q := url.Values{"after": {strconv.FormatInt(after, 10)}}
	return c.follow(ctx, get("api", executions, ref, "entries", "stream").with(q), h)
}

// handlerError is an error of the caller's own, which no reconnecting can help.
type handlerError struct{ err error }

func (e *handlerError) Error() string { return e.err.Error() }
func (e *handlerError) Unwrap() error { return e.err }

func (c *Client) follow(ctx context.Context, q call, h Handlers) error {
	s := &stream{h: h}
	for pause := shortestPause; ; pause = min(2*pause, longestPause) {
		err := c.attempt(ctx, q, s)
		switch {
		case s.done && err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case !s.worthRetrying(err):
			return unwrapHandler(err)
		}
		if s.heard {
			pause = shortestPause
		}
		if h.Lost != nil {
			h.Lost(err)
		}
		if err := wait(ctx, pause); err != nil {
			return err
		}
	}
}

func unwrapHandler(err error) error {
	if own, found := errors.AsType[*handlerError](err); found {
		return own.err
	}
	return err
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// attempt reads the stream once, from where it broke off.
func (c *Client) attempt(ctx context.Context, q call, s *stream) error {
	s.heard = false
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watchdog := time.AfterFunc(silence, func() { cancel(errors.New("the service has fallen silent")) })
	defer watchdog.Stop()
	q.header = http.Header{"Accept": {"text/event-stream"}}
	if s.lastID != "" {
		q.header.Set("Last-Event-ID", s.lastID)
	}
	resp, err := c.send(ctx, q)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	s.connected = true
	err = readEvents(resp.Body, func(e event) error {
		watchdog.Stop() // a reader that pauses is not the service's silence
		defer watchdog.Reset(silence)
		return s.handle(e)
	})
	return firstError(err, context.Cause(ctx))
}

// firstError prefers the reason for which a context was ended to what it led to.
func firstError(err, cause error) error {
	var own *handlerError
	if cause != nil && !errors.As(err, &own) {
		return cause
	}
	return err
}

// stream is what is known across connections.
type stream struct {
	h         Handlers
	lastID    string
	connected bool // at least once
	heard     bool // anything at all, over this connection
	done      bool
}

// worthRetrying reports whether the next attempt may go better: the service is being
// restarted, or the connection broke. What it refuses, it will refuse again.
func (s *stream) worthRetrying(err error) bool {
	var own *handlerError
	var refusal *engine.Error
	switch {
	case errors.As(err, &own), !s.connected:
		return false
	case errors.As(err, &refusal):
		return refusal.Code == engine.CodeUnavailable
	}
	return true
}

// handle passes on one event.
func (s *stream) handle(e event) error {
	s.heard = true
	var err error
	switch e.name {
	case api.EventStatus:
		err = pass(e.data, s.h.Status)
	case api.EventCatchup, api.EventLog:
		err = pass(e.data, s.h.logged())
	case api.EventEntry:
		err = pass(e.data, s.h.Entry)
	case api.EventDone:
		s.done = true
		err = pass(e.data, s.h.Done)
	}
	if err == nil && e.id != "" {
		s.lastID = e.id // only now: what was not handled comes again
	}
	return err
}

// logged leaves out the event that only says that catching up is over.
func (h Handlers) logged() func(api.LogEvent) error {
	if h.Log == nil {
		return nil
	}
	return func(e api.LogEvent) error {
		if e.Content == "" {
			return nil
		}
		return h.Log(e)
	}
}

// pass decodes an event for its handler.
func pass[T any](data []byte, handle func(T) error) error {
	if handle == nil {
		return nil
	}
	var v T
	if err := json.Unmarshal(data, &v); err != nil {
		return &handlerError{fmt.Errorf("read an event: %w", err)}
	}
	if err := handle(v); err != nil {
		return &handlerError{err}
	}
	return nil
}

// event is one server-sent event.
type event struct {
	id, name string
	data     []byte // valid until the handler returns
}

// errTooLarge ends a stream that is not ours.
var errTooLarge = errors.New("an event is too large")

// readEvents reads events until the stream ends, which is io.ErrUnexpectedEOF where
// no "done" came before.
func readEvents(r io.Reader, handle func(event) error) error {
	in := bufio.NewReaderSize(r, 64<<10)
	var e event
	for {
		line, err := readLine(in)
		if errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF // an event without its end is none
		}
		if err != nil {
			return err
		}
		if len(line) > 0 {
			if err := e.add(line); err != nil {
				return err
			}
			continue
		}
		if err := handle(e); err != nil {
			return err
		}
		if e.name == api.EventDone {
			return nil
		}
		e = event{data: e.data[:0]}
	}
}

// add takes one line of an event.
func (e *event) add(line []byte) error {
	field, value, _ := bytes.Cut(line, []byte{':'})
	value = bytes.TrimPrefix(value, []byte{' '})
	switch string(field) {
	case "id":
		e.id = string(value)
	case "event":
		e.name = string(value)
	case "data":
		if len(e.data)+len(value) > maxEvent {
			return errTooLarge
		}
		if len(e.data) > 0 {
			e.data = append(e.data, '\n')
		}
		e.data = append(e.data, value...)
	}
	return nil
}

// readLine returns the next line without its end; a last line without end is io.EOF.
func readLine(in *bufio.Reader) ([]byte, error) {
	line, err := in.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return bytes.TrimRight(line, "\r\n"), err
	}
	long := append([]byte(nil), line...)
	for errors.Is(err, bufio.ErrBufferFull) {
		if len(long) > maxEvent {
			return nil, errTooLarge
		}
		line, err = in.ReadSlice('\n')
		long = append(long, line...)
	}
	return bytes.TrimRight(long, "\r\n"), err
}
