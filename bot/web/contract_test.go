package web_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"
	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	"github.com/threadmill/threadmill/bot/web"
	"github.com/threadmill/threadmill/bot/web/api"
	"github.com/threadmill/threadmill/bot/web/client"
	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/rundir"
)

// contract is a transport that holds every answer, and every request that succeeds,
// against the OpenAPI document, and remembers what it has seen.
type contract struct {
	t    *testing.T
	doc  *openapi3.T
	base http.RoundTripper

	mu   sync.Mutex
	seen map[string]bool // "operation status"
}

func newContract(t *testing.T) *contract {
	t.Helper()
	b, err := os.ReadFile("openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := openapi3.NewLoader().LoadFromData(b)
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	tr := &http.Transport{DisableKeepAlives: true}
	t.Cleanup(tr.CloseIdleConnections)
	c := &contract{t: t, doc: doc, base: tr, seen: map[string]bool{}}
	c.strict()
	return c
}

// strict makes the document refuse properties that it does not name, so that an
// undocumented field fails the test. Clients must not read it that way.
func (c *contract) strict() {
	visited := map[*openapi3.Schema]bool{}
	for _, s := range c.doc.Components.Schemas {
		closeSchema(s, visited)
	}
	for _, o := range c.operations() {
		for _, resp := range o.op.Responses.Map() {
			for _, m := range resp.Value.Content {
				closeSchema(m.Schema, visited)
			}
		}
	}
}

func closeSchema(ref *openapi3.SchemaRef, visited map[*openapi3.Schema]bool) {
	if ref == nil || visited[ref.Value] {
		return
	}
	s := ref.Value
	visited[s] = true
	for _, part := range s.AllOf { // one object instead of several that would refuse each other's properties
		if s.Properties == nil {
			s.Properties, s.Type = openapi3.Schemas{}, &openapi3.Types{"object"}
		}
		maps.Copy(s.Properties, part.Value.Properties)
		s.Required = append(s.Required, part.Value.Required...)
	}
	s.AllOf = nil
	for _, p := range s.Properties {
		closeSchema(p, visited)
	}
	closeSchema(s.Items, visited)
	if len(s.Properties) > 0 && s.AdditionalProperties.Has == nil && s.AdditionalProperties.Schema == nil {
		no := false
		s.AdditionalProperties.Has = &no
	}
}

// operation is one documented operation.
type operation struct {
	path, method string
	item         *openapi3.PathItem
	op           *openapi3.Operation
}

func (c *contract) operations() []operation {
	var all []operation
	for path, item := range c.doc.Paths.Map() {
		for method, op := range item.Operations() {
			all = append(all, operation{path, method, item, op})
		}
	}
	return all
}

// find returns the operation of a request; the most literal path wins, as in the server.
func (c *contract) find(method, path string) (operation, map[string]string, bool) {
	var best operation
	var params map[string]string
	for _, o := range c.operations() {
		if p, ok := matches(o.path, path); ok && o.method == method && (best.op == nil || len(p) < len(params)) {
			best, params = o, p
		}
	}
	return best, params, best.op != nil
}

func matches(pattern, path string) (map[string]string, bool) {
	want, got := strings.Split(pattern, "/"), strings.Split(path, "/")
	if len(want) != len(got) {
		return nil, false
	}
	params := map[string]string{}
	for i := range want {
		if name, found := strings.CutPrefix(want[i], "{"); found {
			params[strings.TrimSuffix(name, "}")] = got[i]
		} else if want[i] != got[i] {
			return nil, false
		}
	}
	return params, true
}

func (c *contract) RoundTrip(r *http.Request) (*http.Response, error) {
	var sent []byte
	if r.Body != nil {
		var err error
		if sent, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		if r.Body = http.NoBody; len(sent) > 0 {
			r.Body = io.NopCloser(bytes.NewReader(sent))
		}
	}
	resp, err := c.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if err := c.check(r, sent, resp); err != nil {
		c.t.Errorf("%s %s: %d: %v", r.Method, r.URL.Path, resp.StatusCode, err)
	}
	return resp, nil
}

// check holds one exchange against the document.
func (c *contract) check(r *http.Request, sent []byte, resp *http.Response) error {
	o, params, found := c.find(r.Method, r.URL.Path)
	if !found {
		if resp.StatusCode == http.StatusMethodNotAllowed || resp.StatusCode == http.StatusNotFound {
			return nil
		}
		return errors.New("the operation is not documented")
	}
	c.mu.Lock()
	c.seen[fmt.Sprint(o.op.OperationID, " ", resp.StatusCode)] = true
	c.mu.Unlock()
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return nil // there is no body
	}
	clone := r.Clone(context.WithoutCancel(r.Context()))
	clone.Body = io.NopCloser(bytes.NewReader(sent))
	input := &openapi3filter.RequestValidationInput{
		Request: clone, PathParams: params, QueryParams: r.URL.Query(),
		Route:   &routers.Route{Spec: c.doc, Path: o.path, PathItem: o.item, Method: o.method, Operation: o.op},
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true, MultiError: true},
	}
	if resp.StatusCode < 300 {
		if err := openapi3filter.ValidateRequest(clone.Context(), input); err != nil {
			return err
		}
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	err = openapi3filter.ValidateResponse(clone.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: resp.StatusCode, Header: resp.Header, Body: io.NopCloser(bytes.NewReader(body)), Options: input.Options,
	})
	return errors.Join(err, c.checkEvents(resp.Header.Get("Content-Type"), body))
}

// checkEvents holds the events of a stream against their schemas.
func (c *contract) checkEvents(contentType string, body []byte) error {
	if !strings.HasPrefix(contentType, "text/event-stream") {
		return nil
	}
	schemas := map[string]string{
		api.EventStatus: "StatusEvent", api.EventCatchup: "LogEvent", api.EventLog: "LogEvent", api.EventEntry: "Entry", api.EventDone: "DoneEvent", api.EventChange: "ChangeEvent",
	}
	var name string
	for line := range strings.Lines(string(body)) {
		line = strings.TrimSpace(line)
		if after, found := strings.CutPrefix(line, "event: "); found {
			name = after
		}
		if data, found := strings.CutPrefix(line, "data: "); found {
			if err := c.checkValue(schemas[name], data); err != nil {
				return fmt.Errorf("event %q: %w", name, err)
			}
		}
	}
	return nil
}

func (c *contract) checkValue(schema, text string) error {
	s, found := c.doc.Components.Schemas[schema]
	if !found {
		return fmt.Errorf("there is no schema %q", schema)
	}
	return s.Value.VisitJSON(decode[any](c.t, text))
}

// samples are the requests that the document's operations take; {x}, {a}, {r} and {t}
// are an execution, an approval, a rule and a task.
func samples() map[string]request {
	post := func(path, body string) request { return request{method: "POST", path: path, body: body} }
	return map[string]request{
		"listExecutions":     {path: "/api/executions?status=queued&status=failed&page=1&pageSize=5"},
		"createExecution":    post("/api/executions", `{"capability":"chat","text":"x","args":{"n":1},"once":true}`),
		"getExecution":       {path: "/api/executions/{x}"},
		"cancelExecution":    post("/api/executions/{x}/cancel", `{"force":true}`),
		"sendMessage":        post("/api/executions/{x}/message", `{"text":"x","onBusy":"queue"}`),
		"interruptExecution": post("/api/executions/{x}/interrupt", ``),
		"retryExecution":     post("/api/executions/{x}/retry", `{}`),
		"forkExecution":      post("/api/executions/{x}/fork", `{"text":"x"}`),
		"listCommands":       {path: "/api/executions/{x}/commands"},
		"downloadLog":        {path: "/api/executions/{x}/logs?tail=5"},
		"streamLog":          {path: "/api/executions/{x}/logs/stream?tail=5"},
		"socketLog":          {path: "/api/executions/{x}/logs/ws", header: http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="}}},
		"listEntries":        {path: "/api/executions/{x}/entries?after=0&limit=10"},
		"streamEntries":      {path: "/api/executions/{x}/entries/stream?after=1"},
		"listApprovals":      {path: "/api/approvals?state=all&executionId={x}"},
		"getApproval":        {path: "/api/approvals/{a}"},
		"decideApproval":     post("/api/approvals/{a}", `{"decision":"deny","denyMessage":"no","interrupt":true}`),
		"listRules":          {path: "/api/rules"},
		"removeRule":         {method: "DELETE", path: "/api/rules/{r}"},
		"getBudget":          {path: "/api/budget"},
		"extendBudget":       post("/api/budget/extend", `{"scope":"agent","id":"robot","usd":2.5,"idempotencyKey":"k"}`),
		"listTasks":          {path: "/api/tasks?status=review&page=1&pageSize=2"},
		"createTask":         post("/api/tasks", `{"title":"x","context":"y","docsPath":"z","capabilityId":"chat"}`),
		"getTask":            {path: "/api/tasks/{t}"},
		"runTask":            post("/api/tasks/{t}/run", `{"text":"x"}`),
		"stopTask":           post("/api/tasks/{t}/stop", ``),
		"listAgents":         {path: "/api/agents"},
		"listCapabilities":   {path: "/api/capabilities"},
		"listWorkers":        {path: "/api/workers/status"},
		"listAudit":          {path: "/api/audit?pageSize=2&actor=web"},
		"streamChanges":      {path: "/api/changes"},
		"createSession":      post("/api/session", `{"token":"x"}`),
		"getSession":         {path: "/api/session"},
		"endSession":         {method: "DELETE", path: "/api/session", header: http.Header{"Cookie": {"threadmill_session=x"}, "Sec-Fetch-Site": {"same-origin"}}},
		"createLink":         post("/api/session/links", ``),
		"getVersion":         {path: "/api/version"},
		"getOpenAPI":         {path: "/api/openapi.yaml"},
		"getHealth":          {path: "/healthz"},
		"getReadiness":       {path: "/readyz"},
		"getMetrics":         {path: "/metrics"},
	}
}

// bench is a rig whose every exchange is held against the contract.
type bench struct {
	*rig
	c    *contract
	t    *testing.T
	vars *strings.Replacer
}

func newBench(t *testing.T, c *contract, change func(*web.Options)) *bench {
	t.Helper()
	return &bench{rig: newRig(t, change), c: c, t: t, vars: strings.NewReplacer()}
}

// send makes a request, changed, and expects a status.
func (b *bench) send(q request, want int) reply {
	b.t.Helper()
	q.path = b.vars.Replace(q.path)
	resp, err := b.c.RoundTrip(q.build(b.t, b.http.URL))
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	var body []byte
	if resp.StatusCode != http.StatusSwitchingProtocols {
		if body, err = io.ReadAll(resp.Body); err != nil {
			b.t.Fatal(err)
		}
	}
	if resp.StatusCode != want {
		b.t.Errorf("%s %s: status %d, want %d: %s", q.method, q.path, resp.StatusCode, want, body)
	}
	return reply{resp.StatusCode, resp.Header, string(body)}
}

// prepare makes a finished execution with all kinds of entries, a waiting approval
// in another, and a task, and names them for the samples.
func (b *bench) prepare() {
	b.t.Helper()
	x, run := b.start(b.t, "chat", "hello")
	run.log(b.t, numbered(20)...)
	for _, e := range everyEntry() {
		run.entry(b.t, e)
	}
	run.answer(rundir.OpCancel, rundir.Reply{OK: true, How: rundir.HowDone})
	open, rule := b.asked(), b.remembered()
	task, err := b.client.CreateTask(b.t.Context(), api.TaskRequest{Title: "task", CapabilityID: "chat"})
	if err != nil {
		b.t.Fatal(err)
	}
	b.vars = strings.NewReplacer("{x}", x.ID, "{a}", open.ID, "{r}", rule.ID, "{t}", task.ID)
}

// asked makes an execution that waits for a permission.
func (b *bench) asked() engine.Approval {
	b.t.Helper()
	x, asking := b.start(b.t, "chat", "ask")
	asking.ask(b.t, "ask-1")
	return b.waiting(b.t, x.ID)
}

// remembered makes a rule.
func (b *bench) remembered() engine.Rule {
	b.t.Helper()
	_, err := b.client.Decide(b.t.Context(), b.asked().ID, api.DecisionRequest{Decision: api.Deny, Scope: engine.ScopeRun, DenyMessage: "no"})
	if err != nil {
		b.t.Fatal(err)
	}
	rules, err := b.client.Rules(b.t.Context())
	if err != nil || len(rules) != 1 {
		b.t.Fatalf("rules %+v, %v", rules, err)
	}
	return rules[0]
}

// everyEntry is one entry of each kind, as full as it can be.
func everyEntry() []agent.Entry {
	code := 0
	ask := func(questions ...agent.Question) *agent.Ask {
		return &agent.Ask{State: agent.AskOpen, Questions: questions, Reminders: 1, Shortened: true}
	}
	return []agent.Entry{
		{Kind: agent.KindSystem, Content: "s", Meta: map[string]any{"model": "m"}},
		{Kind: agent.KindUser, ID: "u", Content: "u"},
		{Kind: agent.KindAssistant, ID: "a", Append: true, Content: "a"},
		{Kind: agent.KindThinking, Content: "t"},
		{Kind: agent.KindToolUse, ID: "t", Tool: &agent.Tool{
			Name: "Bash", Action: agent.ActionCommandRun, Status: agent.ToolSuccess, Input: []byte(`[1]`), Path: "p", Diff: "d", Command: "c", ExitCode: &code, Result: "r",
		}},
		{Kind: agent.KindError, Content: "e", Failure: &agent.Failure{Reason: agent.ReasonAgentLimit}},
		{Kind: agent.KindQuestion, ID: "q", Content: "q", Ask: ask(agent.Question{Text: "?", Header: "h", Choices: []agent.Choice{{Label: "l", Description: "d"}}, Multiple: true, FreeText: true})},
		{Kind: agent.KindUsage, Usage: &agent.Usage{InputTokens: 1, OutputTokens: 2, CostUSD: 0.5}},
		{Kind: agent.KindStatus, Status: &agent.Status{Activity: agent.Working, SessionRef: "s", Pid: 1}},
	}
}

// TestEveryAnswerIsDocumented exercises every documented operation in every documented
// way.
func TestEveryAnswerIsDocumented(t *testing.T) {
	t.Parallel()
	c := newContract(t)
	ops := c.operations()
	slices.SortFunc(ops, func(a, b operation) int { return strings.Compare(a.op.OperationID, b.op.OperationID) })
	newBench(t, c, nil).refused(ops)
	b := newBench(t, c, (&broken{err: errors.New("disk on fire")}).install)
	b.answered(ops, http.StatusInternalServerError, "listCapabilities") // which has no errors
	b = newBench(t, c, (&broken{err: engine.Errorf(engine.CodeUnavailable, "not now")}).install)
	b.answered(ops, http.StatusServiceUnavailable)
	b = newBench(t, c, (&broken{err: engine.Errorf(engine.CodeConflict, "not in this state")}).install)
	b.answered(ops, http.StatusConflict)
	b = newBench(t, c, (&broken{}).install)
	b.answered(ops, http.StatusInternalServerError) // panics
	newBench(t, c, nil).successes()
	newBench(t, c, nil).mistakes()
	for _, o := range ops {
		for status := range o.op.Responses.Map() {
			if !c.seen[o.op.OperationID+" "+status] {
				t.Errorf("%s never answered %s", o.op.OperationID, status)
			}
		}
	}
}

// documented returns the sample of an operation where it documents the status.
func documented(o operation, status int) (request, bool) {
	q := samples()[o.op.OperationID]
	return q, o.op.Responses.Status(status) != nil
}

// refused exercises what is decided before any handler.
func (b *bench) refused(ops []operation) {
	b.t.Helper()
	for _, o := range ops {
		q, _ := documented(o, 0)
		if q.path == "" {
			b.t.Fatalf("there is no sample of %s", o.op.OperationID)
		}
		try := func(status int, change func(q *request)) {
			if q, ok := documented(o, status); ok {
				change(&q)
				b.send(q, status)
			}
		}
		try(401, func(q *request) { q.anonymous = true })
		try(421, func(q *request) { q.host = "evil.example" })
		try(403, func(q *request) { q.header = http.Header{"Origin": {"https://evil.example"}} })
		try(415, func(q *request) {
			q.header = http.Header{"Content-Type": {"text/plain"}}
			q.body += " "
		})
		try(413, func(q *request) { q.body = `{"x":"` + strings.Repeat("x", 2<<20) + `"}` })
		if o.op.Responses.Status(405) != nil {
			resp, err := b.c.base.RoundTrip(request{method: "DELETE", path: q.path}.build(b.t, b.http.URL))
			if err != nil {
				b.t.Fatal(err)
			}
			get := request{path: q.path}.build(b.t, b.http.URL)
			if err := b.c.check(get, nil, resp); err != nil || resp.StatusCode != http.StatusMethodNotAllowed || resp.Header.Get("Allow") != "GET, HEAD" {
				b.t.Errorf("DELETE %s: %s %v %v", q.path, resp.Status, resp.Header, err)
			}
			resp.Body.Close()
		}
	}
}

// answered exercises what every operation answers when its engine does one thing.
func (b *bench) answered(ops []operation, status int, except ...string) {
	b.t.Helper()
	for _, o := range ops {
		q, ok := documented(o, status)
		if !ok || slices.Contains(except, o.op.OperationID) {
			continue
		}
		a := b.send(q, status)
		if o.op.OperationID == "getReadiness" {
			continue
		}
		if e := a.failure(b.t); status == 500 {
			if e.Reference == "" || strings.Contains(a.body, "disk") || !strings.Contains(b.log.String(), "reference="+e.Reference) {
				b.t.Errorf("%s: %s", o.op.OperationID, a.body)
			}
		}
	}
}

// successes exercises every operation as it is meant.
func (b *bench) successes() {
	b.t.Helper()
	b.prepare()
	s := samples()
	ok := map[string]int{
		"createExecution": 201, "createTask": 201, "cancelExecution": 202, "interruptExecution": 202, "socketLog": 101,
	}
	for _, id := range []string{"sendMessage", "interruptExecution"} { // while it runs
		b.send(s[id], max(ok[id], 200))
	}
	b.send(s["socketLog"], 101)
	x := b.vars.Replace("{x}")
	b.host.run(b.t, x).end(b.t, 0)
	b.await(b.t, x, engine.Status.Ended)
	for _, id := range []string{
		"listExecutions", "createExecution", "getExecution", "listCommands", "downloadLog", "streamLog", "listEntries", "streamEntries",
		"listApprovals", "getApproval", "decideApproval", "listRules", "removeRule", "getBudget", "extendBudget", "listTasks", "createTask", "getTask", "runTask", "stopTask",
		"listAgents", "listCapabilities", "listWorkers", "listAudit", "getVersion", "getOpenAPI", "getHealth", "getReadiness", "getMetrics",
	} {
		b.send(s[id], max(ok[id], 200))
	}
	b.send(s["retryExecution"], 201)
	b.send(s["forkExecution"], 201)
	second := request{method: "POST", path: "/api/executions/2/cancel"}
	b.send(second, 202)
	key := request{method: "POST", path: "/api/executions", body: `{"capability":"chat","text":"x","idempotencyKey":"k"}`}
	b.send(key, 201)
	b.send(key, 200)
	b.send(request{path: "/api/executions/1/logs", header: http.Header{"Range": {"bytes=0-3"}}}, 206)
	b.send(request{path: "/api/executions/1/logs", header: http.Header{"Range": {"bytes=9999999-"}}}, 416)
	b.send(request{path: "/api/executions/1/logs/ws"}, 426)
	typed := client.New(b.http.URL, token).WithTransport(b.c)
	if _, err := typed.Audit(b.t.Context(), engine.AuditFilter{Object: x}); err != nil {
		b.t.Error(err)
	}
	b.socket()
	b.signIn()
	b.server.Stop() // a stream of changes has no other end
	b.send(s["streamChanges"], 200)
}

// signIn exercises what browsers do.
func (b *bench) signIn() {
	b.t.Helper()
	link := decode[api.Link](b.t, string(decode[struct{ Data json.RawMessage }](b.t, b.send(samples()["createLink"], 201).body).Data))
	_, token, _ := strings.Cut(link.URL, "#token=")
	a := b.send(request{method: "POST", path: "/api/session", body: fmt.Sprintf(`{"token":%q}`, token), anonymous: true}, 200)
	cookie := http.Header{"Cookie": {strings.Split(a.header.Get("Set-Cookie"), ";")[0]}, "Sec-Fetch-Site": {"same-origin"}}
	b.send(request{path: "/api/session", anonymous: true, header: cookie}, 200)
	b.send(samples()["getSession"], 200)
	b.send(request{method: "DELETE", path: "/api/session", anonymous: true, header: cookie}, 204)
}

// socket holds the messages of the log's WebSocket against their schema.
func (b *bench) socket() {
	b.t.Helper()
	conn := b.dial(b.t, "/api/executions/1/logs/ws", nil)
	for {
		_, text, err := conn.Read(b.t.Context())
		if err != nil {
			if websocket.CloseStatus(err) != websocket.StatusNormalClosure {
				b.t.Error(err)
			}
			return
		}
		if err := b.c.checkValue("SocketMessage", string(text)); err != nil {
			b.t.Error(err)
		}
	}
}

// mistakes exercises what clients do wrong.
func (b *bench) mistakes() {
	b.t.Helper()
	b.prepare()
	for id, q := range samples() { // bodies and queries that make no sense
		switch {
		case q.method == "POST":
			q.body = `{"nonsense":1}`
			b.send(q, 400)
		case strings.Contains(q.path, "?") || strings.HasSuffix(id, "Log"):
			q.path, _, _ = strings.Cut(q.path, "?")
			q.path += "?nonsense=1"
			b.send(q, 400)
		}
	}
	b.send(request{path: "/api/changes?nonsense=1"}, 400)
	vars := b.vars
	b.vars = strings.NewReplacer("{x}", "4711", "{a}", "none", "{r}", "none", "{t}", "none")
	for _, q := range samples() {
		if strings.Contains(q.path, "{") {
			b.send(q, 404)
		}
	}
	b.vars = vars
	b.send(request{method: "POST", path: "/api/executions", body: `{"capability":"none"}`}, 404)
	b.send(request{method: "POST", path: "/api/tasks", body: `{"title":"x","capabilityId":"none"}`}, 404)
	b.send(request{method: "POST", path: "/api/budget/extend", body: `{"scope":"agent","id":"none","usd":1}`}, 404)
	b.conflicts()
	b.unsupported()
}

func (b *bench) conflicts() {
	b.t.Helper()
	s := samples()
	b.send(s["retryExecution"], 409) // it runs
	b.send(s["decideApproval"], 200)
	b.send(s["decideApproval"], 409)
	b.send(s["runTask"], 200)
	b.send(s["runTask"], 409)
	b.start(b.t, "solo", "x")
	b.send(request{method: "POST", path: "/api/executions", body: `{"capability":"solo","text":"y"}`}, 409)
	ended := b.finished(b.t)
	b.vars = strings.NewReplacer("{x}", ended.ID)
	for _, id := range []string{"cancelExecution", "sendMessage", "interruptExecution"} {
		b.send(s[id], 409)
	}
	cancelled, err := b.client.Create(b.t.Context(), api.CreateRequest{Capability: "solo", Text: "z"})
	if err == nil {
		b.t.Errorf("an agent at its limit took %v", cancelled)
	}
}

func (b *bench) unsupported() {
	b.t.Helper()
	s := samples()
	post := func(path, body string) request { return request{method: "POST", path: path, body: body} }
	echo, run := b.echo()
	b.vars = strings.NewReplacer("{x}", echo.ID)
	b.send(s["sendMessage"], 422)
	b.send(s["interruptExecution"], 422)
	run.end(b.t, 0)
	b.await(b.t, echo.ID, engine.Status.Ended)
	b.send(s["forkExecution"], 422)
	b.send(post("/api/executions", `{"parentId":"`+echo.ID+`","resume":true}`), 422)
}

// echo starts a command, whose agent can do nothing but run.
func (b *bench) echo() (engine.Execution, *run) {
	b.t.Helper()
	x, err := b.client.Create(b.t.Context(), api.CreateRequest{Capability: "echo", Args: map[string]any{"word": "hi"}})
	if err != nil {
		b.t.Fatal(err)
	}
	return x, b.host.run(b.t, x.ID)
}
