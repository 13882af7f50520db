package web_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3filter"
	"go.uber.org/goleak"

	"github.com/threadmill/threadmill/bot/web"
	"github.com/threadmill/threadmill/bot/web/api"
	"github.com/threadmill/threadmill/bot/web/client"
	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/storage"
)

func TestMain(m *testing.M) {
	openapi3filter.RegisterBodyDecoder("text/event-stream", openapi3filter.PlainBodyDecoder)
	goleak.VerifyTestMain(m)
}

const (
	token    = "0123456789abcdef0123456789abcdef"
	deadline = 30 * time.Second
)

// rig is the API over the real engine and the real database; only the host, which
// would need tmux, is a stand-in that writes real run directories.
type rig struct {
	engine *engine.Engine
	host   *host
	server *web.Server
	http   *httptest.Server
	client *client.Client
	log    *logBuffer
}

// newRig starts one; change may alter the options.
func newRig(tb testing.TB, change func(*web.Options)) *rig {
	tb.Helper()
	dir := tb.TempDir()
	db, err := storage.Open(tb.Context(), dir)
	if err != nil {
		tb.Fatal(err)
	}
	r := &rig{host: newHost(dir), log: &logBuffer{}}
	logger := slog.New(slog.NewTextHandler(r.log, nil))
	r.engine = engine.New(engine.Options{
		Store: db, Host: r.host, Logger: logger, Adapters: map[string]agent.Adapter{"able": adapter{able}, "plain": adapter{}},
	})
	if err := r.engine.SetCatalog(catalog(dir)); err != nil {
		tb.Fatal(err)
	}
	if err := r.engine.Start(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	o := web.Options{
		Engine: r.engine, Sessions: db, Token: token, Listen: []string{"127.0.0.1:4100"}, PublicURL: "https://mill.example:8443", Logger: logger,
		Version: api.Version{Version: "1.2.3", Commit: "abc", Go: "go1", Contract: 1, RunDir: "run"},
	}
	if change != nil {
		change(&o)
	}
	if r.server, err = web.New(o); err != nil {
		tb.Fatal(err)
	}
	r.http = httptest.NewServer(r.server.Handler())
	r.client = client.New(r.http.URL, token)
	tb.Cleanup(func() {
		r.server.Stop()
		r.client.Close()
		r.http.Close()
		ctx, cancel := context.WithTimeout(context.Background(), deadline)
		defer cancel()
		if err := errors.Join(r.engine.Stop(ctx), r.host.close(), db.Close()); err != nil {
			tb.Error(err)
		}
	})
	return r
}

// able is what a full-grown agent can do.
var able = agent.Traits{
	Protocol: "fake", Messages: true, Steering: true, Interrupt: true, Resume: true, Fork: true, Approvals: true, Questions: true,
}

// adapter only declares what it can do: the host stands in for the runner.
type adapter struct{ traits agent.Traits }

func (a adapter) Traits() agent.Traits { return a.traits }
func (adapter) Check(context.Context, agent.Job) agent.Availability {
	return agent.Availability{OK: true, Path: "/bin/true", Version: "1"}
}

func (adapter) Start(context.Context, agent.Job, agent.Runtime) (agent.Session, error) {
	return nil, agent.ErrUnsupported
}

func catalog(dir string) engine.Catalog {
	agents := map[string]engine.Agent{
		"robot": {Adapter: "able", Binary: "robot", Budget: engine.Budget{PerRunUSD: 1, PerRunTokens: 1e6, PerUserDayUSD: 900, PerDayUSD: 1000}, OnTimeout: "remind", Options: map[string]any{"mcp_config": "s3cret"}, EnvAllowlist: []string{"KEY"}},
		"shell": {Adapter: "plain"},
		"busy":  {Adapter: "able", MaxConcurrent: 1, OnBusy: engine.BusyReject},
	}
	for id, a := range agents {
		a.ID, a.WorkingDir = id, dir
		if a.OnBusy == "" {
			a.OnBusy = engine.BusyQueue
		}
		agents[id] = a
	}
	word := map[string]any{"type": "string", "pattern": "^[a-z]+$"}
	return engine.Catalog{
		Agents: agents, AllowedDirs: []string{dir},
		Capabilities: map[string]engine.Capability{
			"chat": {
				ID: "chat", Label: "Chat", AgentID: "robot", Mode: engine.ModePrompt, Prompt: "{{text}}", Source: "built in",
				ArgsSchema: map[string]any{"type": "object", "properties": map[string]any{"n": map[string]any{"type": "integer"}}},
			},
			"solo": {ID: "solo", Label: "Solo", AgentID: "busy", Mode: engine.ModePrompt, Prompt: "{{text}}", Source: "built in"},
			"echo": {
				ID: "echo", Label: "Echo", AgentID: "shell", Mode: engine.ModeTemplate, Command: []string{"true", "{{word}}"}, Source: "built in",
				ArgsSchema: map[string]any{"type": "object", "properties": map[string]any{"word": word}, "required": []any{"word"}},
			},
		},
		Workers: map[string]engine.Worker{"arch": {AgentID: "robot", Channel: "slack:C1"}},
	}
}

// start creates an execution and waits until its runner has started.
func (r *rig) start(tb testing.TB, capability, text string) (engine.Execution, *run) {
	tb.Helper()
	x, err := r.client.Create(tb.Context(), api.CreateRequest{Capability: capability, Text: text})
	if err != nil {
		tb.Fatal(err)
	}
	return x, r.host.run(tb, x.ID)
}

// waiting waits until an execution waits for one thing.
func (r *rig) waiting(tb testing.TB, id string) engine.Approval {
	tb.Helper()
	var open []engine.Approval
	eventually(tb, func() (bool, string) {
		var err error
		if open, err = r.client.Approvals(tb.Context(), engine.ApprovalFilter{OpenOnly: true, ExecutionID: id}); err != nil {
			tb.Fatal(err)
		}
		return len(open) == 1, "no approval"
	})
	return open[0]
}

// finished makes an execution that has ended with that log.
func (r *rig) finished(t *testing.T, lines ...string) engine.Execution {
	t.Helper()
	x, run := r.start(t, "chat", "hello")
	run.log(t, lines...)
	run.end(t, 0)
	return r.await(t, x.ID, engine.Status.Ended)
}

// await polls until the execution's status is as wanted.
func (r *rig) await(tb testing.TB, ref string, want func(engine.Status) bool) engine.Execution {
	tb.Helper()
	var x engine.Execution
	eventually(tb, func() (bool, string) {
		var err error
		if x, err = r.engine.Execution(tb.Context(), ref); err != nil {
			tb.Fatal(err)
		}
		return want(x.Status), "status is " + string(x.Status)
	})
	return x
}

// eventually polls a condition within the deadline.
func eventually(tb testing.TB, met func() (bool, string)) {
	tb.Helper()
	for end := time.Now().Add(deadline); ; {
		ok, why := met()
		if ok {
			return
		}
		if time.Now().After(end) {
			tb.Fatalf("never came about: %s", why)
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-tb.Context().Done():
			tb.Fatal(tb.Context().Err())
		}
	}
}

// request is a raw request; its zero value is a GET with the token.
type request struct {
	method, path, body string
	header             http.Header
	host               string
	anonymous          bool
}

func (q request) build(t *testing.T, base string) *http.Request {
	t.Helper()
	method := q.method
	if method == "" {
		method = http.MethodGet
	}
	req, err := http.NewRequestWithContext(t.Context(), method, base+q.path, strings.NewReader(q.body))
	if err != nil {
		t.Fatal(err)
	}
	if q.body == "" {
		req.Body = http.NoBody
	} else {
		req.Header.Set("Content-Type", "application/json")
	}
	if !q.anonymous {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	maps.Copy(req.Header, q.header)
	req.Host = q.host
	return req
}

// reply is an answer, read.
type reply struct {
	status int
	header http.Header
	body   string
}

// do sends a raw request over a connection of its own.
func (r *rig) do(t *testing.T, q request) reply {
	t.Helper()
	tr := &http.Transport{DisableKeepAlives: true, DisableCompression: true}
	defer tr.CloseIdleConnections()
	resp, err := tr.RoundTrip(q.build(t, r.http.URL))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{resp.StatusCode, resp.Header, string(b)}
}

// failure decodes an error.
func (a reply) failure(t *testing.T) api.Error {
	t.Helper()
	var e api.Error
	if err := json.Unmarshal([]byte(a.body), &e); err != nil {
		t.Fatalf("%d %s: %v", a.status, a.body, err)
	}
	return e
}

// wantFailure holds an error against what is expected of it.
func (a reply) wantFailure(t *testing.T, status int, code engine.Code, text string) {
	t.Helper()
	if a.status != status {
		t.Fatalf("status %d, want %d: %s", a.status, status, a.body)
	}
	if e := a.failure(t); e.Code != code || !strings.Contains(e.Error, text) {
		t.Errorf("error %+v, want code %s and text %q", e, code, text)
	}
}

// logBuffer gathers what the server logs.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// numbered makes lines of a log, alternating between streams in runs of three.
func numbered(n int) []string {
	streams := []string{"stdout", "stderr", "system"}
	lines := make([]string, n)
	for i := range lines {
		lines[i] = fmt.Sprintf("[%s] line %d äöü", streams[i/3%3], i+1)
	}
	return lines
}
