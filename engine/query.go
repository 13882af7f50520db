package engine

import (
	"context"
	"time"

	"github.com/threadmill/threadmill/engine/rundir"
)

// Execution finds an execution by id or number.
func (e *Engine) Execution(ctx context.Context, ref string) (Execution, error) {
	return e.store.Execution(ctx, ref)
}

// Executions returns a page of executions, newest first, and how many match.
func (e *Engine) Executions(ctx context.Context, f Filter) ([]Execution, int, error) {
	return e.store.Executions(ctx, f)
}

// Approval finds an approval.
func (e *Engine) Approval(ctx context.Context, id string) (Approval, error) {
	return e.store.Approval(ctx, id)
}

// Approvals returns what agents wait for, oldest first.
func (e *Engine) Approvals(ctx context.Context, f ApprovalFilter) ([]Approval, error) {
	return e.store.Approvals(ctx, f)
}

// Task finds a task.
func (e *Engine) Task(ctx context.Context, id string) (Task, error) { return e.store.Task(ctx, id) }

// Tasks returns a page of tasks, newest first, and how many match.
func (e *Engine) Tasks(ctx context.Context, s TaskStatus, page, pageSize int) ([]Task, int, error) {
	return e.store.Tasks(ctx, s, page, pageSize)
}

// CreateTask stores a new task, to be run later.
func (e *Engine) CreateTask(ctx context.Context, t Task) (Task, error) {
	if t.Title == "" {
		return t, Errorf(CodeInvalid, "the task needs a title")
	}
	if t.CapabilityID != "" {
		if _, ok := e.catalog.Load().Capabilities[t.CapabilityID]; !ok {
			return t, Errorf(CodeNotFound, "there is no capability %q; see `threadmill capabilities`", t.CapabilityID)
		}
	}
	t.ID, t.Status, t.CreatedAt = rundir.NewID(), Todo, e.now().UTC()
	t.UpdatedAt = t.CreatedAt
	err := e.store.CreateTask(ctx, t, Audit{At: t.CreatedAt, Actor: t.CreatedBy, Action: "task.create", Object: t.ID, Allowed: true})
	e.watchers.ring(everything)
	return t, err
}

// brief is what an agent is told about a task when nothing else is said.
func (t Task) brief() string {
	if t.Context == "" {
		return t.Title
	}
	return t.Title + "\n\n" + t.Context
}

// AuditTrail returns who did what, newest first.
func (e *Engine) AuditTrail(ctx context.Context, f AuditFilter) ([]Audit, error) {
	return e.store.AuditTrail(ctx, f)
}

// Files opens what an execution has written.
func (e *Engine) Files(ctx context.Context, ref string) (Files, error) {
	x, err := e.store.Execution(ctx, ref)
	if err != nil {
		return nil, err
	}
	if x.LogsDeleted {
		return nil, Errorf(CodeNotFound, "the files of execution #%d were deleted: they are kept for a limited time", x.Number)
	}
	return e.host.Files(x.ID)
}

// Watch returns a bell that rings after the execution's row has changed. Without an id
// it rings for every execution, new ones included, and for new tasks.
func (e *Engine) Watch(id string) (<-chan struct{}, func()) { return e.watchers.add(id) }

// Worker is a standing agent as configured.
type Worker struct {
	AgentID string
	Channel string
}

// WorkerStatus tells what a standing agent is doing.
type WorkerStatus struct {
	Name        string     `json:"name"`
	AgentID     string     `json:"agentId"`
	Channel     string     `json:"channel,omitempty"`
	State       string     `json:"state"` // stopped: no front-end serves its channel
	ExecutionID string     `json:"executionId,omitempty"`
	Since       *time.Time `json:"since,omitempty"`
}

// Workers returns the configured standing agents. They answer in a channel, so they
// run only where a front-end that serves the channel is connected.
func (e *Engine) Workers(context.Context) ([]WorkerStatus, error) {
	workers := e.catalog.Load().Workers
	out := make([]WorkerStatus, 0, len(workers))
	for _, name := range sortedKeys(workers) {
		w := workers[name]
		out = append(out, WorkerStatus{Name: name, AgentID: w.AgentID, Channel: w.Channel, State: "stopped"})
	}
	return out, nil
}

// Stats is what there is, by number.
type Stats struct {
	ByStatus      map[Status]int `json:"byStatus"` // of those that have not ended
	OpenApprovals int            `json:"openApprovals"`
}

// Stats counts what is going on.
func (e *Engine) Stats(ctx context.Context) (Stats, error) {
	active, err := e.store.Active(ctx)
	if err != nil {
		return Stats{}, err
	}
	s := Stats{ByStatus: map[Status]int{Queued: 0, Running: 0, Cancelling: 0}} //nolint:exhaustive // the ended ones are not active
	for _, x := range active {
		s.ByStatus[x.Status]++
	}
	open, err := e.store.Approvals(ctx, ApprovalFilter{OpenOnly: true})
	s.OpenApprovals = len(open)
	return s, err
}

// Health tells whether the service can do its work, and what is in the way.
type Health struct {
	Ready  bool    `json:"ready"`
	Checks []Check `json:"checks"`
}

// Check is one thing that was looked at.
type Check struct {
	Name     string `json:"name"`
	OK       bool   `json:"ok"`
	Required bool   `json:"required"` // without it nothing runs
	Detail   string `json:"detail,omitempty"`
}

// Health looks at what the engine depends on.
func (e *Engine) Health(ctx context.Context) Health {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	_, err := e.store.Active(ctx)
	checks := []Check{checkOf("database", true, "", err)}
	detail, err := e.host.Check(ctx)
	checks = append(checks, checkOf("terminal", false, detail, err))
	e.mu.Lock()
	stopping, started := e.stopping, e.take != nil
	e.mu.Unlock()
	switch {
	case !started:
		checks = append(checks, Check{Name: "engine", Required: true, Detail: "not started yet"})
	case stopping:
		checks = append(checks, Check{Name: "engine", Required: true, Detail: "stopping"})
	default:
		checks = append(checks, Check{Name: "engine", Required: true, OK: true})
	}
	h := Health{Ready: true, Checks: checks}
	for _, c := range checks {
		h.Ready = h.Ready && (c.OK || !c.Required)
	}
	return h
}

func checkOf(name string, required bool, detail string, err error) Check {
	if err != nil {
		detail = err.Error()
	}
	return Check{Name: name, OK: err == nil, Required: required, Detail: detail}
}
