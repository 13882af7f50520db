package engine

import (
	"context"
	"time"
)

// Store keeps everything that must survive the process. Each method is one
// transaction. What does not exist is an [Error] with CodeNotFound; a change whose
// guard does not hold is one with CodeConflict and changes nothing.
type Store interface {
	ExecutionStore
	CommandStore
	ApprovalStore
	RuleStore
	TaskStore
	AuditStore
	RetentionStore
	BudgetStore
}

// ExecutionStore keeps executions.
type ExecutionStore interface {
	// CreateExecution stores a request. With an idempotency key that was seen before
	// it returns the earlier execution and created = false.
	CreateExecution(ctx context.Context, n NewExecution) (e Execution, created bool, err error)
	// Execution finds one by id or by number.
	Execution(ctx context.Context, ref string) (Execution, error)
	// Executions returns a page, newest first, and the number of all that match.
	Executions(ctx context.Context, f Filter) (page []Execution, total int, err error)
	// Active returns all that have not ended, oldest first: the queue and the live ones.
	Active(ctx context.Context) ([]Execution, error)
	// Transition makes a guarded change of status (see [Status.From]) and, in the same
	// transaction, all that follows from it: times, the task, the command, the audit row.
	Transition(ctx context.Context, c Change) (Execution, error)
	// Commit stores the effect of entries with the cursor. It is refused with
	// CodeConflict where the stored cursor is beyond p.Cursor. An open ask is stored
	// unless it is known; of one that is known and open, what is asked is replaced (it has
	// a new deadline). Any other state of an ask replaces what was stored, also a person's
	// decision: the runner's word is what the agent got.
	Commit(ctx context.Context, p Progress) error
	// Heartbeat notes that the runners of these executions answered.
	Heartbeat(ctx context.Context, ids []string, at time.Time) error
}

// CommandStore keeps orders to runners.
type CommandStore interface {
	// AddCommand stores an order. With an id that was seen before it returns the earlier
	// one and created = false. It is refused with CodeConflict unless the execution is
	// queued or live.
	AddCommand(ctx context.Context, c Command, a *Audit) (stored Command, created bool, err error)
	// PendingCommands returns those of an execution that no runner acknowledged, in the
	// order in which they were stored.
	PendingCommands(ctx context.Context, executionID string) ([]Command, error)
	// SettleCommand notes the runner's answer: a message is accepted until its entry
	// says that it was handed over, any other command is handed once it was carried out.
	// A command that was already handed over stays so.
	SettleCommand(ctx context.Context, c Command) error
	// Commands returns all of an execution, in order.
	Commands(ctx context.Context, executionID string) ([]Command, error)
}

// ApprovalStore keeps what agents wait for.
type ApprovalStore interface {
	Approval(ctx context.Context, id string) (Approval, error)
	Approvals(ctx context.Context, f ApprovalFilter) ([]Approval, error)
	// Decide settles an open approval and stores with it the order to the runner, the
	// rule that is made of it, and the use of the rule that decided. The first decision
	// wins: another one gets CodeConflict, and the approval as decided. A rule that is
	// gone or has expired decides nothing: CodeConflict, and the approval still open.
	Decide(ctx context.Context, s Settlement) (Approval, error)
}

// RuleStore keeps remembered decisions. They come in by Decide.
type RuleStore interface {
	// Rules returns those that match, oldest first.
	Rules(ctx context.Context, f RuleFilter) ([]Rule, error)
	// RemoveRule removes a rule and returns it.
	RemoveRule(ctx context.Context, id string, by Audit) (Rule, error)
}

// TaskStore keeps tasks.
type TaskStore interface {
	CreateTask(ctx context.Context, t Task, a Audit) error
	Task(ctx context.Context, id string) (Task, error)
	// Tasks returns a page, newest first, and the number of all that match; an empty
	// status matches every task.
	Tasks(ctx context.Context, status TaskStatus, page, pageSize int) ([]Task, int, error)
}

// AuditStore keeps who did what.
type AuditStore interface {
	AddAudit(ctx context.Context, a Audit) error
	AuditTrail(ctx context.Context, f AuditFilter) ([]Audit, error)
}

// BudgetStore keeps what was spent on which day, and what was added to budgets. What an
// execution spends it learns from Progress and Change.
type BudgetStore interface {
	// DaySpent returns what a user and an agent have spent on a day.
	DaySpent(ctx context.Context, d BudgetDay) (DaySpent, error)
	// Spending returns all that was spent on a day, and the runs that spent most of it.
	Spending(ctx context.Context, day string, runs int) (Spending, error)
	// Extend adds to a budget. With a key that was seen before it adds nothing and
	// returns created = false. A run that has ended or has no cap is a CodeConflict.
	Extend(ctx context.Context, x Extension, a Audit) (created bool, err error)
	// Warn notes a warning, also on the execution; first is false where the same one, of
	// the same day, was given before: nothing is noted then.
	Warn(ctx context.Context, w BudgetWarning, a Audit) (first bool, err error)
}

// RetentionStore forgets.
type RetentionStore interface {
	// LogsBefore returns up to limit executions that ended before t and still have files.
	LogsBefore(ctx context.Context, t time.Time, limit int) ([]Execution, error)
	// LogsDeleted notes that the files of these executions are gone.
	LogsDeleted(ctx context.Context, ids []string) error
	// DeleteBefore removes executions that ended before t and whose files are gone, with
	// their commands and approvals, tasks that hold none any more, rules that no longer
	// hold for anything, and audit rows.
	DeleteBefore(ctx context.Context, t time.Time) (executions int, err error)
}
