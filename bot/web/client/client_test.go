package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/threadmill/threadmill/bot/web/api"
	"github.com/threadmill/threadmill/bot/web/client"
	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/agent"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve answers calls with h.
func serve(t *testing.T, h http.HandlerFunc) *client.Client {
	t.Helper()
	srv := httptest.NewServer(h)
	c := client.New(srv.URL+"/", "secret")
	t.Cleanup(func() {
		c.Close()
		srv.Close()
	})
	return c
}

func answer(w http.ResponseWriter, status int, v any) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func TestNobodyThere(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	c := client.New("http://"+ln.Addr().String(), "secret")
	_, err = c.Version(t.Context())
	if !errors.Is(err, client.ErrNoServer) || !strings.Contains(err.Error(), ln.Addr().String()) || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
	if err := c.Follow(t.Context(), "1", client.Handlers{}); !errors.Is(err, client.ErrNoServer) {
		t.Errorf("following: %v", err)
	}
	if _, err := c.Health(t.Context()); !errors.Is(err, client.ErrNoServer) {
		t.Errorf("health: %v", err)
	}
}

func TestErrorsKeepTheirCode(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		status int
		body   string
		code   engine.Code
		text   string
	}{
		"ours":    {409, `{"error":"An agent is already running","code":"conflict"}`, engine.CodeConflict, "An agent is already running"},
		"a proxy": {502, `<html>Bad Gateway`, engine.CodeUnavailable, "502"},
		"nothing": {404, ``, engine.CodeNotFound, "404"},
		"moved":   {307, ``, engine.CodeInternal, "307"},
	} {
		var calls atomic.Int32
		c := serve(t, func(w http.ResponseWriter, r *http.Request) {
			calls.Add(1)
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(tc.status)
			_, _ = io.WriteString(w, tc.body)
		})
		_, err := c.Get(t.Context(), "1")
		if engine.CodeOf(err) != tc.code || !strings.Contains(err.Error(), tc.text) || calls.Load() != 1 {
			t.Errorf("%s: %v after %d calls", name, err, calls.Load())
		}
	}
}

func TestCallsAreWhatTheAPITakes(t *testing.T) {
	t.Parallel()
	var got string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got = fmt.Sprintf("%s %s %s", r.Method, r.RequestURI, b)
		if r.Header.Get("Authorization") != "Bearer secret" {
			t.Error("the token is missing")
		}
		answer(w, 200, map[string]any{"data": nil})
	})
	ctx := t.Context()
	for want, call := range map[string]func() error{
		`POST /api/executions {"capability":"chat","args":{"n":1}}`: func() error {
			_, err := c.Create(ctx, api.CreateRequest{Capability: "chat", Args: map[string]any{"n": 1}})
			return err
		},
		`GET /api/executions?agentId=a&page=2&pageSize=3&status=queued&status=failed&taskId=t `: func() error {
			_, _, err := c.List(ctx, engine.Filter{TaskID: "t", AgentID: "a", Statuses: []engine.Status{engine.Queued, engine.Failed}, Page: 2, PageSize: 3})
			return err
		},
		`GET /api/executions/..%2F..%2Fmetrics%3Fx `:   func() error { _, err := c.Get(ctx, "../../metrics?x"); return err },
		`POST /api/executions/1/cancel {"force":true}`: func() error { _, err := c.Cancel(ctx, "1", true); return err },
		`POST /api/executions/1/interrupt `:            func() error { _, err := c.Interrupt(ctx, "1"); return err },
		`GET /api/approvals?state=all `:                func() error { _, err := c.Approvals(ctx, engine.ApprovalFilter{}); return err },
		`GET /api/approvals?executionId=1 `: func() error {
			_, err := c.Approvals(ctx, engine.ApprovalFilter{ExecutionID: "1", OpenOnly: true})
			return err
		},
		`GET /api/audit?actor=web&before=9&object=o&pageSize=5 `: func() error {
			_, err := c.Audit(ctx, engine.AuditFilter{Object: "o", Actor: "web", Before: 9, PageSize: 5})
			return err
		},
		`GET /api/rules `:          func() error { _, err := c.Rules(ctx); return err },
		`DELETE /api/rules/a%2Fb `: func() error { _, err := c.RemoveRule(ctx, "a/b"); return err },
		`GET /api/budget `:         func() error { _, err := c.Budget(ctx); return err },
		`POST /api/budget/extend {"scope":"user","id":"slack:U1","usd":2.5}`: func() error {
			_, err := c.ExtendBudget(ctx, api.ExtendRequest{Scope: engine.BudgetUser, ID: "slack:U1", USD: 2.5})
			return err
		},
		`GET /api/executions/1/logs?tail=7 `: func() error { return c.Tail(ctx, "1", 7, io.Discard) },
		`GET /api/tasks?status=review `:      func() error { _, _, err := c.Tasks(ctx, engine.Review, 0, 0); return err },
	} {
		if err := call(); err != nil {
			t.Error(err)
		}
		if got != want {
			t.Errorf("sent %s, want %s", got, want)
		}
	}
}

// flaky is a service that cuts its stream after every few bytes, and forgets to
// answer at all now and then.
func flaky(t *testing.T, lines []string, chunk int) http.HandlerFunc {
	t.Helper()
	var calls atomic.Int32
	return func(w http.ResponseWriter, r *http.Request) {
		from, _ := strconv.Atoi(r.Header.Get("Last-Event-ID"))
		n := int(calls.Add(1))
		if n > 1 && n%3 == 0 {
			answer(w, 503, api.Error{Error: "starting", Code: engine.CodeUnavailable})
			return
		}
		var b strings.Builder
		b.WriteString("retry: 1000\n\nevent: status\ndata: {\"status\":\"running\"}\n\n:\n\n")
		for i := from; i < len(lines); i++ {
			data, _ := json.Marshal(api.LogEvent{Content: lines[i] + "\n", Stream: agent.Stdout})
			fmt.Fprintf(&b, "id: %d\nevent: log\ndata: %s\n\n", i+1, data)
		}
		fmt.Fprintf(&b, "id: %d\nevent: done\ndata: {\"status\":\"succeeded\",\"exitCode\":0}\n\n", len(lines))
		out := b.String()
		_, _ = io.WriteString(w, out[:min(len(out), chunk+500*n)])
		if n%2 == 1 {
			_ = http.NewResponseController(w).Flush() // otherwise not even the header gets out
		}
		panic(http.ErrAbortHandler)
	}
}

func TestFollowingSurvivesEveryBreak(t *testing.T) {
	t.Parallel()
	lines := make([]string, 40)
	for i := range lines {
		lines[i] = fmt.Sprintf("line %d %s", i, strings.Repeat("x", i))
	}
	var lost atomic.Int32
	for chunk := 60; chunk < 400; chunk += 97 {
		c := serve(t, flaky(t, lines, chunk))
		var got []string
		var done api.DoneEvent
		err := c.Follow(t.Context(), "1", client.Handlers{
			Log:  func(e api.LogEvent) error { got = append(got, strings.TrimSuffix(e.Content, "\n")); return nil },
			Done: func(e api.DoneEvent) error { done = e; return nil },
			Lost: func(error) { lost.Add(1) },
		})
		if err != nil || done.Status != engine.Succeeded {
			t.Fatalf("chunk %d: %v, %+v", chunk, err, done)
		}
		if diff := cmp.Diff(lines, got); diff != "" {
			t.Fatalf("chunk %d: %s", chunk, diff)
		}
	}
	if lost.Load() == 0 {
		t.Error("no break was told")
	}
}

func TestFollowingEndsWhereItMust(t *testing.T) {
	t.Parallel()
	own := errors.New("the pipe is closed")
	line := "id: 1\nevent: log\ndata: {\"content\":\"x\",\"stream\":\"stdout\"}\n\n"
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Last-Event-ID") != "" {
			answer(w, 404, api.Error{Error: "its files were removed", Code: engine.CodeNotFound})
			return
		}
		_, _ = io.WriteString(w, line)
	})
	err := c.Follow(t.Context(), "1", client.Handlers{Log: func(api.LogEvent) error { return own }})
	if err != own { //nolint:errorlint // it has to be the very error
		t.Errorf("the handler's error came as %v", err)
	}
	if err := c.Follow(t.Context(), "1", client.Handlers{}); engine.CodeOf(err) != engine.CodeNotFound {
		t.Errorf("a refusal came as %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = c.Follow(ctx, "1", client.Handlers{Log: func(api.LogEvent) error { cancel(); return nil }})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("after a cancel: %v", err)
	}
}

func TestFollowingEntries(t *testing.T) {
	t.Parallel()
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != "after=3" {
			t.Errorf("asked for %s", r.URL)
		}
		_, _ = io.WriteString(w, "id: 4\nevent: entry\ndata: {\"seq\":4,\"kind\":\"assistant\",\"content\":\"hi\"}\n\nevent: done\ndata: {}\n\n")
	})
	var got []agent.Entry
	err := c.FollowEntries(t.Context(), "1", 3, client.Handlers{Entry: func(e agent.Entry) error { got = append(got, e); return nil }})
	if err != nil || len(got) != 1 || got[0].Seq != 4 || got[0].Content != "hi" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestHealthOfSomethingElse(t *testing.T) {
	t.Parallel()
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, map[string]any{"hello": 1}) })
	if _, err := c.Health(t.Context()); err == nil || !strings.Contains(err.Error(), "not a Threadmill service") {
		t.Errorf("got %v", err)
	}
}
