package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/threadmill/threadmill/bot/web/api"
	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/agent"
)

const executions = "executions"

// Create starts an execution, or returns the one that the same idempotency key made.
func (c *Client) Create(ctx context.Context, q api.CreateRequest) (engine.Execution, error) {
	return fetchData[engine.Execution](ctx, c, post(q, "api", executions))
}

// List returns a page of executions, newest first, and how many match.
func (c *Client) List(ctx context.Context, f engine.Filter) ([]engine.Execution, int, error) {
	q := paging(f.Page, f.PageSize)
	set(q, "taskId", f.TaskID)
	set(q, "agentId", f.AgentID)
	for _, st := range f.Statuses {
		q.Add("status", string(st))
	}
	list, meta, err := fetch[[]engine.Execution](ctx, c, get("api", executions).with(q))
	return list, total(meta), err
}

// Get returns an execution with its agent and capability; ref is its id or number.
func (c *Client) Get(ctx context.Context, ref string) (api.Detail, error) {
	return fetchData[api.Detail](ctx, c, get("api", executions, ref))
}

// Cancel stops an execution; force leaves out the polite steps.
func (c *Client) Cancel(ctx context.Context, ref string, force bool) (engine.Execution, error) {
	return fetchData[engine.Execution](ctx, c, post(api.CancelRequest{Force: force}, "api", executions, ref, "cancel"))
}

// Send says something to a running agent.
func (c *Client) Send(ctx context.Context, ref string, m api.MessageRequest) (api.Sent, error) {
	return fetchData[api.Sent](ctx, c, post(m, "api", executions, ref, "message"))
}

// Interrupt ends an agent's turn.
func (c *Client) Interrupt(ctx context.Context, ref string) (api.Sent, error) {
	return fetchData[api.Sent](ctx, c, post(nil, "api", executions, ref, "interrupt"))
}

// Retry starts an execution again.
func (c *Client) Retry(ctx context.Context, ref string) (engine.Execution, error) {
	return fetchData[engine.Execution](ctx, c, post(nil, "api", executions, ref, "retry"))
}

// Fork continues a copy of an execution's session.
func (c *Client) Fork(ctx context.Context, ref, text string) (engine.Execution, error) {
	return fetchData[engine.Execution](ctx, c, post(api.ForkRequest{Text: text}, "api", executions, ref, "fork"))
}

// Commands returns what an execution was told, in order.
func (c *Client) Commands(ctx context.Context, ref string) ([]engine.Command, error) {
	return fetchData[[]engine.Command](ctx, c, get("api", executions, ref, "commands"))
}

// Logs writes an execution's log, as it is now, to w.
func (c *Client) Logs(ctx context.Context, ref string, w io.Writer) error {
	return c.logs(ctx, ref, nil, w)
}

// Tail writes the last lines of an execution's log to w.
func (c *Client) Tail(ctx context.Context, ref string, lines int, w io.Writer) error {
	return c.logs(ctx, ref, url.Values{"tail": {strconv.Itoa(lines)}}, w)
}

func (c *Client) logs(ctx context.Context, ref string, q url.Values, w io.Writer) error {
	resp, err := c.send(ctx, get("api", executions, ref, "logs").with(q))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(w, resp.Body); err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	return nil
}

// Entries returns up to limit entries after a sequence number, and the number to pass
// for the next ones; limit 0 is the service's own.
func (c *Client) Entries(ctx context.Context, ref string, after int64, limit int) ([]agent.Entry, int64, error) {
	q := url.Values{"after": {strconv.FormatInt(after, 10)}}
	if limit > 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	list, meta, err := fetch[[]agent.Entry](ctx, c, get("api", executions, ref, "entries").with(q))
	return list, meta.Next, err
}

// Approvals returns what agents wait for.
func (c *Client) Approvals(ctx context.Context, f engine.ApprovalFilter) ([]engine.Approval, error) {
	q := url.Values{}
	set(q, "executionId", f.ExecutionID)
	if !f.OpenOnly {
		q.Set("state", "all")
	}
	return fetchData[[]engine.Approval](ctx, c, get("api", "approvals").with(q))
}

// Approval returns one thing that an agent waits for.
func (c *Client) Approval(ctx context.Context, id string) (engine.Approval, error) {
	return fetchData[engine.Approval](ctx, c, get("api", "approvals", id))
}

// Decide settles an approval or answers a question.
func (c *Client) Decide(ctx context.Context, id string, d api.DecisionRequest) (engine.Approval, error) {
	return fetchData[engine.Approval](ctx, c, post(d, "api", "approvals", id))
}

// Rules returns the remembered decisions that are in force.
func (c *Client) Rules(ctx context.Context) ([]engine.Rule, error) {
	return fetchData[[]engine.Rule](ctx, c, get("api", "rules"))
}

// RemoveRule forgets a remembered decision and returns it.
func (c *Client) RemoveRule(ctx context.Context, id string) (engine.Rule, error) {
	return fetchData[engine.Rule](ctx, c, remove("api", "rules", id))
}

// Tasks returns a page of tasks, newest first, and how many match.
func (c *Client) Tasks(ctx context.Context, status engine.TaskStatus, page, pageSize int) ([]engine.Task, int, error) {
	q := paging(page, pageSize)
	set(q, "status", string(status))
	list, meta, err := fetch[[]engine.Task](ctx, c, get("api", "tasks").with(q))
	return list, total(meta), err
}

// CreateTask makes a task.
func (c *Client) CreateTask(ctx context.Context, t api.TaskRequest) (engine.Task, error) {
	return fetchData[engine.Task](ctx, c, post(t, "api", "tasks"))
}

// Task returns a task.
func (c *Client) Task(ctx context.Context, id string) (engine.Task, error) {
	return fetchData[engine.Task](ctx, c, get("api", "tasks", id))
}

// RunTask runs a task.
func (c *Client) RunTask(ctx context.Context, id string, q api.RunRequest) (api.Started, error) {
	return fetchData[api.Started](ctx, c, post(q, "api", "tasks", id, "run"))
}

// StopTask ends a task's running execution.
func (c *Client) StopTask(ctx context.Context, id string) (api.Stopping, error) {
	return fetchData[api.Stopping](ctx, c, post(nil, "api", "tasks", id, "stop"))
}

// Budget returns what may be spent today, and what is.
func (c *Client) Budget(ctx context.Context) (engine.BudgetReport, error) {
	return fetchData[engine.BudgetReport](ctx, c, get("api", "budget"))
}

// ExtendBudget adds to a budget and returns the budgets that are larger now.
func (c *Client) ExtendBudget(ctx context.Context, q api.ExtendRequest) ([]engine.BudgetLine, error) {
	return fetchData[[]engine.BudgetLine](ctx, c, post(q, "api", "budget", "extend"))
}

// Agents returns the agents.
func (c *Client) Agents(ctx context.Context) ([]engine.AgentView, error) {
	return fetchData[[]engine.AgentView](ctx, c, get("api", "agents"))
}

// Capabilities returns what agents can be asked to do.
func (c *Client) Capabilities(ctx context.Context) ([]engine.Capability, error) {
	return fetchData[[]engine.Capability](ctx, c, get("api", "capabilities"))
}

// Workers returns how the standing agents are.
func (c *Client) Workers(ctx context.Context) ([]engine.WorkerStatus, error) {
	return fetchData[[]engine.WorkerStatus](ctx, c, get("api", "workers", "status"))
}

// Audit returns who did what, newest first.
func (c *Client) Audit(ctx context.Context, f engine.AuditFilter) ([]engine.Audit, error) {
	q := paging(0, f.PageSize)
	set(q, "object", f.Object)
	set(q, "actor", f.Actor)
	if f.Before > 0 {
		q.Set("before", strconv.FormatInt(f.Before, 10))
	}
	return fetchData[[]engine.Audit](ctx, c, get("api", "audit").with(q))
}

// Version returns what the service is.
func (c *Client) Version(ctx context.Context) (api.Version, error) {
	return fetchData[api.Version](ctx, c, get("api", "version"))
}

// Health returns whether the service is ready. One that is not is no error: the
// checks tell why.
func (c *Client) Health(ctx context.Context) (api.Health, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	req, err := c.request(ctx, get("readyz"))
	if err != nil {
		return api.Health{}, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return api.Health{}, c.unreachable(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusServiceUnavailable {
		return api.Health{}, failure(resp)
	}
	var body api.NotReady // a ready one is the same without an error
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&body); err != nil {
		return api.Health{}, fmt.Errorf("read the answer of %s: %w", c.base, err)
	}
	if !body.Data.Ready && len(body.Data.Checks) == 0 {
		return api.Health{}, errors.New("what answers at " + c.base + " is not a Threadmill service")
	}
	return body.Data, nil
}

// Link makes a link that signs a browser in.
func (c *Client) Link(ctx context.Context) (api.Link, error) {
	return fetchData[api.Link](ctx, c, post(nil, "api", "session", "links"))
}

func paging(page, pageSize int) url.Values {
	q := url.Values{}
	if page > 0 {
		q.Set("page", strconv.Itoa(page))
	}
	if pageSize > 0 {
		q.Set("pageSize", strconv.Itoa(pageSize))
	}
	return q
}

func set(q url.Values, name, value string) {
	if value != "" {
		q.Set(name, value)
	}
}

func total(m api.Meta) int {
	if m.Total == nil {
		return 0
	}
	return *m.Total
}
