package web_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/threadmill/threadmill/bot/web"
	"github.com/threadmill/threadmill/bot/web/client"
	"github.com/threadmill/threadmill/engine"
)

func TestOnlyOurOwnHostsAreServed(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	everywhere := newRig(t, func(o *web.Options) { o.Listen = []string{"[::]:4100", "mill.lan:4100"} })
	for _, c := range []struct {
		host       string
		here, wide int
	}{
		{"127.0.0.1:4100", 200, 200},
		{"127.0.0.1", 200, 200},
		{"127.1.2.3:80", 200, 200},
		{"localhost:1234", 200, 200},
		{"LOCALHOST", 200, 200},
		{"[::1]:4100", 200, 200},
		{"mill.example:8443", 200, 200},
		{"Mill.Example", 200, 200},
		{"mill.lan:4100", 421, 200},
		{"192.0.2.1:4100", 421, 200},
		{"[2001:db8::1]:4100", 421, 200},
		{"evil.example", 421, 421},
		{"127.0.0.1.evil.example:4100", 421, 421},
		{"localhost.evil.example", 421, 421},
		{"mill.example.evil.example", 421, 421},
	} {
		if a := r.do(t, request{path: "/healthz", host: c.host}); a.status != c.here {
			t.Errorf("%s: %d, want %d", c.host, a.status, c.here)
		}
		if a := everywhere.do(t, request{path: "/healthz", host: c.host}); a.status != c.wide {
			t.Errorf("%s, listening everywhere: %d, want %d", c.host, a.status, c.wide)
		}
	}
}

func TestOnlyOurOwnPagesMayCall(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for _, c := range []struct {
		host, origin string
		want         int
	}{
		{"127.0.0.1:4100", "http://127.0.0.1:4100", 200},
		{"127.0.0.1:4100", "http://127.0.0.1:4101", 403},
		{"127.0.0.1:4100", "https://mill.example:8443", 200},
		{"127.0.0.1:4100", "HTTPS://MILL.EXAMPLE:8443", 200},
		{"127.0.0.1:4100", "http://mill.example:8443", 403},
		{"mill.example:8443", "https://mill.example:8443", 200},
		{"mill.example:8443", "https://mill.example", 403},
		{"127.0.0.1:4100", "https://evil.example", 403},
		{"127.0.0.1:4100", "null", 403},
		{"127.0.0.1:4100", "", 403},
		{"localhost:4100", "http://localhost:4100.evil.example", 403},
	} {
		a := r.do(t, request{path: "/api/version", host: c.host, header: http.Header{"Origin": {c.origin}}})
		if a.status != c.want {
			t.Errorf("%s from %q: %d, want %d", c.host, c.origin, a.status, c.want)
		}
	}
}

func TestTheTokenIsNeeded(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for name, header := range map[string]string{
		"none": "", "empty": "Bearer ", "wrong": "Bearer " + strings.Repeat("0", 32), "prefix": "Bearer " + token[:31],
		"longer": "Bearer " + token + "0", "basic": "Basic " + token, "bare": token,
	} {
		for _, path := range []string{"/api/agents", "/api/nothing", "/metrics", "/nothing", "/api/executions/1/logs/stream"} {
			a := r.do(t, request{path: path, anonymous: true, header: http.Header{"Authorization": {header}}})
			a.wantFailure(t, 401, engine.CodeUnauthorized, "API token")
			if a.header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s: no WWW-Authenticate", name)
			}
		}
	}
	for _, path := range []string{"/healthz", "/readyz", "/api/openapi.yaml"} {
		if a := r.do(t, request{path: path, anonymous: true}); a.status != 200 {
			t.Errorf("%s: %d", path, a.status)
		}
	}
	if a := r.do(t, request{path: "/api/version", anonymous: true, header: http.Header{"Authorization": {"bearer " + token}}}); a.status != 200 {
		t.Errorf("a scheme in lower case: %d", a.status)
	}
	opened := newRig(t, func(o *web.Options) { o.OpenMetrics = true })
	if a := opened.do(t, request{path: "/metrics", anonymous: true}); a.status != 200 {
		t.Errorf("open metrics: %d", a.status)
	}
	if strings.Contains(r.log.String(), token) {
		t.Error("the token is in the log")
	}
}

func TestWhatDoesNotExistIsSaidInJSON(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for _, path := range []string{"/nothing", "/api", "/api/nothing", "/api/executions/1/nothing", "/api/executions/"} {
		r.do(t, request{path: path}).wantFailure(t, 404, engine.CodeNotFound, "openapi.yaml")
	}
	a := r.do(t, request{method: "PUT", path: "/api/executions"})
	a.wantFailure(t, 405, engine.CodeInvalid, "GET, HEAD, POST")
	if allow := a.header.Get("Allow"); allow != "GET, HEAD, POST" {
		t.Errorf("Allow is %q", allow)
	}
}

func TestEveryAnswerCarriesTheSecurityHeaders(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for _, q := range []request{{path: "/healthz"}, {path: "/api/x"}, {path: "/", host: "evil.example"}} {
		h := r.do(t, q).header
		for k, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
			"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'", "Cross-Origin-Resource-Policy": "same-origin",
		} {
			if got := h.Get(k); got != want {
				t.Errorf("%s: %s is %q", q.path, k, got)
			}
		}
	}
}

func TestBodiesThatMakeNoSense(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	x, _ := r.start(t, "chat", "hello")
	for _, c := range []struct {
		path, body, text string
		status           int
	}{
		{"/api/executions", `{"capability":"chat","text":"x","colour":1}`, `unknown field "colour"`, 400},
		{"/api/executions", `[]`, "the body: expected an object, got array", 400},
		{"/api/executions", `{"capability":1}`, `field "capability": expected a string, got number`, 400},
		{"/api/executions", `{"args":[1]}`, `field "args": expected an object, got array`, 400},
		{"/api/executions", `{"once":"yes"}`, `expected true or false`, 400},
		{"/api/executions", `{"capability":"chat"} {}`, "more than one JSON value", 400},
		{"/api/executions", `{"capability":"chat"}]`, "is not JSON", 400},
		{"/api/executions", `{"capability":"chat"`, "ends before", 400},
		{"/api/executions", `{capability}`, "at byte 2", 400},
		{"/api/executions", ` `, "ends before", 400},
		{"/api/executions", `{}`, "no capability", 400},
		{"/api/executions", `{"text":"` + strings.Repeat("x", 1<<20) + `"}`, "larger than 1048576 bytes", 413},
		{"/api/executions/1/message", `{"text":" "}`, "needs a text", 400},
		{"/api/executions/1/message", `{"text":"x","onBusy":"concurrent"}`, "queue, steer, reject", 400},
		{"/api/executions/1/cancel", `{"force":1}`, `field "force"`, 400},
		{"/api/executions/1/interrupt", `{"x":1}`, `unknown field "x"`, 400},
		{"/api/tasks", `{"title":" "}`, "needs a title", 400},
		{"/api/approvals/x", `{"decision":"maybe"}`, "allow, deny", 400},
		{"/api/approvals/x", `{}`, "allow, deny", 400},
		{"/api/approvals/x", `{"decision":"deny","modifiedInput":{}}`, "belong to allow", 400},
		{"/api/approvals/x", `{"decision":"deny","answers":{"a":"b"}}`, "belong to allow", 400},
		{"/api/approvals/x", `{"decision":"allow","denyMessage":"x"}`, "belong to deny", 400},
		{"/api/approvals/x", `{"answers":{"a":"b"},"interrupt":true}`, "belong to deny", 400},
		{"/api/approvals/x", `{"decision":"allow","modifiedInput":[1]}`, "expected an object", 400},
	} {
		a := r.do(t, request{method: "POST", path: c.path, body: c.body})
		a.wantFailure(t, c.status, engine.CodeInvalid, c.text)
	}
	for _, typ := range []string{"", "text/plain", "application/json; charset=latin1", "application/x-www-form-urlencoded", "application/json;;"} {
		a := r.do(t, request{method: "POST", path: "/api/executions", body: `{}`, header: http.Header{"Content-Type": {typ}}})
		a.wantFailure(t, 415, engine.CodeInvalid, "application/json")
	}
	if _, total, err := r.client.List(t.Context(), engine.Filter{}); err != nil || total != 1 {
		t.Errorf("besides %s there are %d, %v", x.ID, total-1, err)
	}
}

func TestQueriesThatMakeNoSense(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.finished(t, "[stdout] x")
	for query, text := range map[string]string{
		"/api/executions?page=0":                      "from 1 to",
		"/api/executions?pageSize=201":                "from 1 to 200",
		"/api/executions?page=x":                      "whole number",
		"/api/executions?page=1&page=2":               "given 2 times",
		"/api/executions?status=done":                 `no status "done"`,
		"/api/executions?pagesize=3":                  `unknown parameter "pagesize"`,
		"/api/executions?a=%zz":                       "cannot be read",
		"/api/tasks?status=nope":                      "todo, in_progress",
		"/api/approvals?state=closed":                 "open, all",
		"/api/audit?before=0":                         "from 1 to",
		"/api/executions/1/logs?tail=0":               "from 1 to",
		"/api/executions/1/logs/stream?offset=-1":     "from 0 to",
		"/api/executions/1/logs/stream?offset=999":    "nothing after byte",
		"/api/executions/1/entries?limit=1001":        "from 1 to 1000",
		"/api/executions/1/entries/stream?after=1e3":  "whole number",
		"/api/executions/1/entries/stream?nonsense=1": "unknown parameter",
	} {
		r.do(t, request{path: query}).wantFailure(t, 400, engine.CodeInvalid, text)
	}
	bad := request{path: "/api/executions/1/logs/stream", header: http.Header{"Last-Event-Id": {"abc"}}}
	r.do(t, bad).wantFailure(t, 400, engine.CodeInvalid, "Last-Event-ID")
}

func TestAServiceThatIsNotReadySaysWhy(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *web.Options) {
		o.Ready = func(context.Context) []engine.Check {
			return []engine.Check{{Name: "configuration", Required: true, Detail: "line 3 makes no sense"}, {Name: "nice", Detail: "to have"}}
		}
	})
	a := r.do(t, request{path: "/readyz", anonymous: true})
	a.wantFailure(t, 503, engine.CodeUnavailable, "configuration: line 3 makes no sense")
	h, err := r.client.Health(t.Context())
	if err != nil || h.Ready || len(h.Checks) < 4 {
		t.Errorf("%+v, %v", h, err)
	}
	if strings.Contains(a.failure(t).Error, "nice") {
		t.Error("a check that is not required is given as the reason")
	}
}

func TestMetricsCount(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.start(t, "chat", "hello")
	r.do(t, request{path: "/api/executions/1"})
	r.do(t, request{path: "/api/executions/4711"})
	r.do(t, request{method: "BREW", path: "/api/executions/1"})
	r.do(t, request{path: "/", host: "evil.example"})
	text := r.do(t, request{path: "/metrics"}).body
	for _, want := range []string{
		`threadmill_executions{status="running"} 1`, `threadmill_executions{status="queued"} 0`, `threadmill_approvals_open 0`,
		`threadmill_http_requests_total{route="/api/executions/{id}",method="GET",code="200"} 1`,
		`threadmill_http_requests_total{route="/api/executions/{id}",method="GET",code="404"} 1`,
		`threadmill_http_requests_total{route="/api/executions/{id}",method="other",code="405"} 1`,
		`threadmill_http_requests_total{route="refused",method="GET",code="421"} 1`,
		`threadmill_stream_clients{kind="logs"} 0`, `threadmill_build_info{version="1.2.3"`, "process_resident_memory_bytes",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
	if strings.Contains(text, "4711") || strings.Contains(text, "BREW") {
		t.Error("what clients send became a label")
	}
}

func TestServeEndsItsStreamsAndReturns(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	x, _ := r.start(t, "chat", "hello")
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.server.Serve(ctx, ln) }()
	r.http.Close() // the rig's calls go to the real server from here on
	r.http.URL = "http://" + ln.Addr().String()
	r.client = client.New(r.http.URL, token)
	s := r.open(t, logPath(x.ID)+"/stream", "")
	s.until("catchup")
	conn := r.dial(t, logPath(x.ID)+"/ws", nil)
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		messages(t, conn)
	}()
	stop()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(deadline):
		t.Fatal("Serve did not return")
	}
	<-closed
	if _, more := s.next(); more {
		t.Error("the stream went on")
	}
	if _, err := r.client.Version(t.Context()); err == nil {
		t.Error("it still answers")
	}
}

func TestServeTellsThatItsListenerBroke(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	if err := r.server.Serve(t.Context(), ln); err == nil {
		t.Error("no error")
	}
}

func TestASlowBodyHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.http.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	head := "POST /api/executions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + token + "\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
	if _, err := io.WriteString(conn, head); err != nil {
		t.Fatal(err)
	}
	for range 20 { // meanwhile
		if a := r.do(t, request{path: "/api/version"}); a.status != 200 {
			t.Fatal(a.body)
		}
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("half a body: %s", resp.Status)
	}
}

func TestOptionsThatWouldLeaveTheAPIOpen(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]web.Options{
		"no token": {}, "short token": {Token: "secret"}, "public": {Token: token, PublicURL: "mill.example"}, "scheme": {Token: token, PublicURL: "ftp://x"}, "no sessions": {Token: token},
	} {
		o.Logger = slog.New(slog.DiscardHandler)
		if _, err := web.New(o); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func TestTheTokenIsMadeOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := web.ReadToken(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("before the first start: %v", err)
	}
	tokens := make([]string, 20)
	var wg sync.WaitGroup
	for i := range tokens {
		wg.Go(func() { tokens[i], _ = web.LoadToken(dir) })
	}
	wg.Wait()
	for _, got := range tokens {
		if got != tokens[0] || len(got) != 64 {
			t.Fatalf("tokens differ: %q", tokens)
		}
	}
	path := filepath.Join(dir, web.TokenFile)
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := web.LoadToken(dir); err != nil || got != tokens[0] {
		t.Errorf("%q, %v", got, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file's mode is %v, %v", info.Mode(), err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	for _, bad := range []string{"", "short", strings.Repeat("x", 31), strings.Repeat("ä", 40), strings.Repeat("x y", 20)} {
		if err := os.WriteFile(path, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := web.LoadToken(dir); err == nil || !strings.Contains(err.Error(), "remove it") {
			t.Errorf("%q was taken: %v", bad, err)
		}
	}
}
