package web

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/threadmill/threadmill/bot/web/api"
	"github.com/threadmill/threadmill/engine"
)

const (
	// socketProtocol is the subprotocol that the server chooses.
	socketProtocol = "threadmill"
	// tokenProtocol carries the token as a further "subprotocol", since browsers cannot
	// set headers on a WebSocket.
	tokenProtocol = "bearer."
	// socketReadLimit bounds a client's messages; there is nothing it could say.
	socketReadLimit = 4 << 10
)

// socketToken returns the token that a WebSocket handshake carries.
func socketToken(r *http.Request) string {
	if !isSocket(r) {
		return ""
	}
	for _, header := range r.Header.Values("Sec-WebSocket-Protocol") {
		for p := range strings.SplitSeq(header, ",") {
			if token, found := strings.CutPrefix(strings.TrimSpace(p), tokenProtocol); found {
				return token
			}
		}
	}
	return ""
}

func isSocket(r *http.Request) bool {
	return strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
}

// socketLog sends the log over a WebSocket, and goes on as it grows.
func (s *Server) socketLog(w http.ResponseWriter, r *http.Request) {
	if !isSocket(r) || r.Method != http.MethodGet {
		w.Header().Set("Upgrade", "websocket")
		s.fail(w, r, statusErrorf(http.StatusUpgradeRequired, engine.CodeInvalid, "this is a WebSocket; for events over HTTP use logs/stream"))
		return
	}
	x, files, feed, err := s.openFeed(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	defer func() { _ = feed.close() }() // it was only read
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{
		Subprotocols:       []string{socketProtocol},
		InsecureSkipVerify: true, // Origin and Host were checked for every request already
	})
	if err != nil {
		return // Accept has answered
	}
	s.sockets.Add(1)
	defer s.sockets.Done()
	defer s.metrics.stream(streamSocket)()
	s.serveSocket(r, conn, func(ctx context.Context) error {
		return s.follow(ctx, x, files, &logSocket{ctx: ctx, conn: conn, feed: feed})
	})
}

// errTalked ends a socket whose client said something.
var errTalked = errors.New("the client sent a message")

// serveSocket runs a connection to its end and closes it with the code that tells why.
func (s *Server) serveSocket(r *http.Request, conn *websocket.Conn, run func(context.Context) error) {
	conn.SetReadLimit(socketReadLimit)
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	// The connection's own CloseRead would wait for itself when a client talks.
	reading := make(chan struct{})
	go func() {
		defer close(reading)
		cancel(listen(ctx, conn))
	}()
	err := run(ctx)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	s.hangUp(r, conn, err)
	_ = conn.CloseNow() // closed already, as a rule
	<-reading
}

// listen answers pings until the client goes, or says something.
func listen(ctx context.Context, conn *websocket.Conn) error {
	if _, _, err := conn.Reader(ctx); err != nil {
		return err
	}
	return errTalked
}

// hangUp closes a connection; err is why its stream ended.
func (s *Server) hangUp(r *http.Request, conn *websocket.Conn, err error) {
	code, reason := websocket.StatusNormalClosure, ""
	switch {
	case err == nil:
	case errors.Is(err, errStopping):
		code, reason = websocket.StatusGoingAway, "the service is stopping"
	case errors.Is(err, errTalked):
		code, reason = websocket.StatusPolicyViolation, "this stream takes no messages"
	case r.Context().Err() != nil, websocket.CloseStatus(err) != -1, disconnected(err):
		s.log.DebugContext(r.Context(), "socket ended by the client", "path", r.URL.Path, "error", err)
		return
	default:
		code, reason = websocket.StatusInternalError, "internal error, reference "+s.reference(r, "error", err)
		l := logSocket{ctx: r.Context(), conn: conn}
		_ = l.send(api.SocketMessage{Type: api.SocketError, Data: reason}) // it is told once more in closing
	}
	_ = conn.Close(code, reason) // a client that has gone needs none
}

// logSocket is a log as messages of a WebSocket.
type logSocket struct {
	ctx  context.Context //nolint:containedctx // the connection's; a sink has no other place for it
	conn *websocket.Conn
	feed *logFeed
}

func (l *logSocket) status(engine.Execution) error { return nil }

// beat asks the client whether it is there.
func (l *logSocket) beat() error {
	ctx, cancel := context.WithTimeout(l.ctx, writeTimeout)
	defer cancel()
	return l.conn.Ping(ctx)
}

func (l *logSocket) pump(_ context.Context, final bool) error {
	for more := true; more; {
		var err error
		if more, err = l.feed.fill(); err != nil {
			return err
		}
		err = l.feed.each(final && !more, func(p piece) error {
			return l.send(api.SocketMessage{Type: string(p.stream), Data: string(p.text), Offset: p.end})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *logSocket) done(x engine.Execution) error {
	data := string(x.Status)
	if x.ExitCode != nil {
		data = strconv.Itoa(*x.ExitCode)
	}
	return l.send(api.SocketMessage{Type: api.SocketExit, Data: data, Offset: l.feed.off, Status: x.Status, ExitCode: x.ExitCode})
}

// send writes one message; a client that does not read is waited for, but not for ever.
func (l *logSocket) send(m api.SocketMessage) error {
	m.Timestamp = time.Now().UTC()
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(l.ctx, writeTimeout)
	defer cancel()
	return l.conn.Write(ctx, websocket.MessageText, b)
}
