package web_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"github.com/threadmill/threadmill/bot/web/api"
	"github.com/threadmill/threadmill/engine"
)

// dial opens a WebSocket, with the token in a header unless o says otherwise.
func (r *rig) dial(t *testing.T, path string, o *websocket.DialOptions) *websocket.Conn {
	t.Helper()
	conn, status, err := r.tryDial(t, path, o)
	if err != nil {
		t.Fatalf("status %d: %v", status, err)
	}
	return conn
}

func (r *rig) tryDial(t *testing.T, path string, o *websocket.DialOptions) (conn *websocket.Conn, status int, err error) {
	t.Helper()
	if o == nil {
		o = &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + token}}}
	}
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	o.HTTPClient = &http.Client{Transport: tr}
	conn, resp, err := websocket.Dial(t.Context(), r.http.URL+path, o) //nolint:bodyclose // it is the connection's
	if err == nil {
		t.Cleanup(func() { _ = conn.CloseNow() })
	}
	if resp != nil {
		status = resp.StatusCode
	}
	return conn, status, err
}

// messages reads to the end and returns the log, the last message, and how it was closed.
func messages(t *testing.T, conn *websocket.Conn) (log string, last api.SocketMessage, closed websocket.StatusCode) {
	t.Helper()
	conn.SetReadLimit(1 << 20)
	var b strings.Builder
	for {
		_, text, err := conn.Read(t.Context())
		if err != nil {
			return b.String(), last, websocket.CloseStatus(err)
		}
		last = decode[api.SocketMessage](t, string(text))
		if last.Type == api.SocketExit || last.Type == api.SocketError {
			continue
		}
		for line := range strings.Lines(last.Data) {
			fmt.Fprintf(&b, "[%s] %s", last.Type, line)
		}
	}
}

func TestALogOverAWebSocket(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	x, run := r.start(t, "chat", "hello")
	lines := numbered(500)
	run.log(t, lines[:200]...)
	conn := r.dial(t, logPath(x.ID)+"/ws", nil)
	run.log(t, lines[200:]...)
	run.end(t, 3)
	log, last, closed := messages(t, conn)
	if diff := cmp.Diff(whole(lines), log); diff != "" {
		t.Error(diff)
	}
	if last.Type != api.SocketExit || last.Data != "3" || last.Status != engine.Failed || *last.ExitCode != 3 || last.Offset != int64(len(log)) {
		t.Errorf("the last message is %+v", last)
	}
	if closed != websocket.StatusNormalClosure {
		t.Errorf("closed with %d", closed)
	}
	conn = r.dial(t, fmt.Sprintf("%s/ws?offset=%d", logPath(x.ID), len(whole(lines[:123]))), nil)
	if log, _, _ := messages(t, conn); log != whole(lines[123:]) {
		t.Errorf("resumed with %s", cmp.Diff(whole(lines[123:]), log))
	}
}

func TestABrowserNamesTheTokenAsASubprotocol(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	x := r.finished(t, "[stdout] hi")
	own := http.Header{"Origin": {r.http.URL}}
	conn := r.dial(t, logPath(x.ID)+"/ws", &websocket.DialOptions{Subprotocols: []string{"threadmill", "bearer." + token}, HTTPHeader: own})
	if p := conn.Subprotocol(); p != "threadmill" {
		t.Errorf("the server chose %q", p)
	}
	if log, _, closed := messages(t, conn); log != "[stdout] hi\n" || closed != websocket.StatusNormalClosure {
		t.Errorf("%q, closed with %d", log, closed)
	}
	for name, o := range map[string]*websocket.DialOptions{
		"wrong token":  {Subprotocols: []string{"threadmill", "bearer.no"}},
		"no token":     {Subprotocols: []string{"threadmill"}},
		"foreign page": {Subprotocols: []string{"threadmill", "bearer." + token}, HTTPHeader: http.Header{"Origin": {"https://evil.example"}}},
	} {
		_, status, err := r.tryDial(t, logPath(x.ID)+"/ws", o)
		if err == nil || status != http.StatusUnauthorized && status != http.StatusForbidden {
			t.Errorf("%s: status %d, %v", name, status, err)
		}
	}
	a := r.do(t, request{path: "/api/agents", anonymous: true, header: http.Header{"Sec-Websocket-Protocol": {"bearer." + token}}})
	a.wantFailure(t, 401, engine.CodeUnauthorized, "token")
}

func TestAClientThatTalksIsHungUpOn(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for name, text := range map[string]string{"little": "hello", "much": strings.Repeat("x", 1<<20)} {
		x, _ := r.start(t, "chat", "hello")
		conn := r.dial(t, logPath(x.ID)+"/ws", nil)
		_ = conn.Write(t.Context(), websocket.MessageText, []byte(text)) // it may be cut in the middle
		if _, _, closed := messages(t, conn); closed != websocket.StatusPolicyViolation && closed != -1 {
			t.Errorf("%s: closed with %d", name, closed)
		}
		eventually(t, func() (bool, string) {
			return strings.Contains(r.do(t, request{path: "/metrics"}).body, `threadmill_stream_clients{kind="websocket"} 0`), "it is still served"
		})
	}
}

func TestAWebSocketEndsWithTheService(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	x, _ := r.start(t, "chat", "hello")
	conn := r.dial(t, logPath(x.ID)+"/ws", nil)
	r.server.Stop()
	if _, _, closed := messages(t, conn); closed != websocket.StatusGoingAway {
		t.Errorf("closed with %d", closed)
	}
}

func TestAWebSocketThatFailsSaysSo(t *testing.T) {
	t.Parallel()
	r := newRig(t, (&failsLater{}).install)
	x, run := r.start(t, "chat", "hello")
	run.log(t, "[stdout] one")
	conn := r.dial(t, logPath(x.ID)+"/ws", nil)
	_, last, closed := messages(t, conn)
	if last.Type != api.SocketError || !strings.Contains(last.Data, "reference") || closed != websocket.StatusInternalError {
		t.Errorf("%+v, closed with %d", last, closed)
	}
	if strings.Contains(last.Data, errLater.Error()) || !strings.Contains(r.log.String(), errLater.Error()) {
		t.Errorf("the client was told %q, the log %q", last.Data, r.log.String())
	}
}

var errLater = errors.New("the disk is gone")
