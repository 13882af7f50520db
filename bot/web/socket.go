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

// serveSocket runs a connection to its end and closes it with the code that tells why.
func (s *Server) serveSocket(r *http.Request, conn *websocket.Conn, run func(context.Context) error) {
	defer conn.CloseNow() //nolint:errcheck // closed already, as a rule
	conn.SetReadLimit(socketReadLimit)
	ctx := conn.CloseRead(r.Context()) // answers pings; ends when the client goes or says anything
	err := run(ctx)
	switch {
	case err == nil:
		_ = conn.Close(websocket.StatusNormalClosure, "")
	case errors.Is(err, errStopping):
		_ = conn.Close(websocket.StatusGoingAway, "the service is stopping")
	case ctx.Err() != nil, isTimeout(err):
		s.log.DebugContext(r.Context(), "socket ended by the client", "path", r.URL.Path)
	default:
		ref := s.reference(r, "socket failed", "error", err)
		b, _ := json.Marshal(api.SocketMessage{Type: api.SocketError, Data: "internal error, reference " + ref, Timestamp: time.Now().UTC()}) // plain values
		_ = conn.Write(ctx, websocket.MessageText, b)
		_ = conn.Close(websocket.StatusInternalError, "internal error, reference "+ref)
	}
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
