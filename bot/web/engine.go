package web

import (
	"context"

	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/agent"
)

// Engine is what the API needs of the engine.
type Engine interface {
	Executions
	Orders
	Output
	Tasks
	Approvals
	Budgets
	Catalog
	Insight
}

// Executions starts executions and finds them.
type Executions interface {
	Submit(ctx context.Context, q engine.Request) (x engine.Execution, created bool, err error)
	Execution(ctx context.Context, ref string) (engine.Execution, error)
	Executions(ctx context.Context, f engine.Filter) (page []engine.Execution, total int, err error)
	Retry(ctx context.Context, ref, by string) (engine.Execution, error)
	Resume(ctx context.Context, ref, text, by string, fork bool) (engine.Execution, error)
}

// Orders tells running executions what to do.
type Orders interface {
	Cancel(ctx context.Context, ref, by string, force bool) (engine.Execution, error)
	Send(ctx context.Context, ref string, m engine.MessageRequest) (engine.Command, error)
	Interrupt(ctx context.Context, ref, by string) (engine.Command, error)
	Commands(ctx context.Context, ref string) ([]engine.Command, error)
}

// Output opens what executions write, and tells when their rows change.
type Output interface {
	Files(ctx context.Context, ref string) (engine.Files, error)
	Watch(id string) (bell <-chan struct{}, stop func())
}

// Tasks keeps tasks and runs them.
type Tasks interface {
	CreateTask(ctx context.Context, t engine.Task) (engine.Task, error)
	Task(ctx context.Context, id string) (engine.Task, error)
	Tasks(ctx context.Context, status engine.TaskStatus, page, pageSize int) ([]engine.Task, int, error)
	RunTask(ctx context.Context, id string, q engine.Request) (engine.Execution, error)
	StopTask(ctx context.Context, id, by string) (engine.Execution, error)
}

// Approvals keeps what agents wait for, and what was decided for good.
type Approvals interface {
	Rules
	Approvals(ctx context.Context, f engine.ApprovalFilter) ([]engine.Approval, error)
	Approval(ctx context.Context, id string) (engine.Approval, error)
	Decide(ctx context.Context, id string, d agent.Decision, keep *engine.Remember) (engine.Approval, error)
}

// Rules keeps remembered decisions.
type Rules interface {
	Rules(ctx context.Context) ([]engine.Rule, error)
	RemoveRule(ctx context.Context, id, by string) (engine.Rule, error)
}

// Budgets tells what is spent and may be.
type Budgets interface {
	Budget(ctx context.Context) (engine.BudgetReport, error)
	ExtendBudget(ctx context.Context, q engine.ExtendRequest) ([]engine.BudgetLine, error)
}

// Catalog lists what is configured.
type Catalog interface {
	Agent(id string) (engine.Agent, bool)
	Capability(id string) (engine.Capability, bool)
	Agents(ctx context.Context) ([]engine.AgentView, error)
	Capabilities() []engine.Capability
	Workers(ctx context.Context) ([]engine.WorkerStatus, error)
}

// Insight tells how the service is and what was done with it.
type Insight interface {
	AuditTrail(ctx context.Context, f engine.AuditFilter) ([]engine.Audit, error)
	Health(ctx context.Context) engine.Health
	Stats(ctx context.Context) (engine.Stats, error)
}
