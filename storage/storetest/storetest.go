// Package storetest says what the engine expects of a store: every store has to pass
// Run. It knows the engine's types and nothing about how a store keeps them.
package storetest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/rundir"
)

// Run holds a store against the contract. Each call of open returns a new, empty one.
func Run(t *testing.T, open func(t *testing.T) engine.Store) {
	t.Helper()
	groups := map[string]map[string]func(*testing.T, engine.Store){
		"executions": executionTests(), "transitions": transitionTests(), "progress": progressTests(),
		"commands": commandTests(), "approvals": approvalTests(), "rules": ruleTests(), "tasks": taskTests(),
		"audit": auditTests(), "races": raceTests(), "retention": retentionTests(), "budgets": budgetTests(),
	}
	for group, tests := range groups {
		t.Run(group, func(t *testing.T) {
			t.Parallel()
			for name, test := range tests {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					test(t, open(t))
				})
			}
		})
	}
}

// start is when everything in these tests begins; not on a whole second, so that a
// store that rounds is found out.
func start() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC) }

func after(d time.Duration) time.Time { return start().Add(d) }

// request is a request with a task of its own; with changes it as a test needs.
func request(with ...func(*engine.NewExecution)) engine.NewExecution {
	id, task := rundir.NewID(), rundir.NewID()
	n := engine.NewExecution{
		Execution: engine.Execution{
			ID: id, TaskID: task, AgentID: "claude", CapabilityID: "ask", Status: engine.Queued, Mode: engine.ModePrompt,
			Prompt: "say hello", Dir: "/srv/app", RequestedBy: "slack:U1", CreatedAt: start(),
		},
		Task:  engine.Task{ID: task, Title: "hello", CreatedBy: "slack:U1", CreatedAt: start()},
		Audit: engine.Audit{At: start(), Actor: "slack:U1", Action: "execution.create", Object: id, Allowed: true},
	}
	for _, f := range with {
		f(&n)
	}
	return n
}

func queued(t *testing.T, s engine.Store, with ...func(*engine.NewExecution)) engine.Execution {
	t.Helper()
	e, created, err := s.CreateExecution(t.Context(), request(with...))
	if err != nil || !created {
		t.Fatalf("create an execution: created %v, %v", created, err)
	}
	return e
}

func running(t *testing.T, s engine.Store, with ...func(*engine.NewExecution)) engine.Execution {
	t.Helper()
	return become(t, s, queued(t, s, with...), engine.Running)
}

// become takes e through the given statuses.
func become(t *testing.T, s engine.Store, e engine.Execution, path ...engine.Status) engine.Execution {
	t.Helper()
	for _, to := range path {
		e = change(t, s, engine.Change{ID: e.ID, To: to, At: after(time.Minute)})
	}
	return e
}

func change(t *testing.T, s engine.Store, c engine.Change) engine.Execution {
	t.Helper()
	e, err := s.Transition(t.Context(), c)
	if err != nil {
		t.Fatalf("change to %s: %v", c.To, err)
	}
	return e
}

func commit(t *testing.T, s engine.Store, p engine.Progress) {
	t.Helper()
	if err := s.Commit(t.Context(), p); err != nil {
		t.Fatalf("commit %+v: %v", p.Cursor, err)
	}
}

func at(seq int64) rundir.Cursor { return rundir.Cursor{Seq: seq, Offset: 100 * seq} }

func get(t *testing.T, s engine.Store, id string) engine.Execution {
	t.Helper()
	e, err := s.Execution(t.Context(), id)
	if err != nil {
		t.Fatalf("read execution %s: %v", id, err)
	}
	return e
}

func task(t *testing.T, s engine.Store, id string) engine.Task {
	t.Helper()
	k, err := s.Task(t.Context(), id)
	if err != nil {
		t.Fatalf("read task %s: %v", id, err)
	}
	return k
}

func message(e engine.Execution, id string) engine.Command {
	return engine.Command{
		ExecutionID: e.ID, State: engine.Pending, CreatedAt: after(time.Minute),
		Command: rundir.Command{ID: id, Op: rundir.OpMessage, By: "slack:U1", Message: &agent.Message{ID: id, Text: "go on", From: "slack:U1"}},
	}
}

func send(t *testing.T, s engine.Store, c engine.Command) engine.Command {
	t.Helper()
	stored, created, err := s.AddCommand(t.Context(), c, nil)
	if err != nil || !created {
		t.Fatalf("add command %s: created %v, %v", c.ID, created, err)
	}
	return stored
}

func commands(t *testing.T, s engine.Store, executionID string) []engine.Command {
	t.Helper()
	found, err := s.Commands(t.Context(), executionID)
	if err != nil {
		t.Fatalf("list commands: %v", err)
	}
	return found
}

// states is the state of each command of an execution, by id.
func states(t *testing.T, s engine.Store, executionID string) map[string]engine.CommandState {
	t.Helper()
	out := map[string]engine.CommandState{}
	for _, c := range commands(t, s, executionID) {
		out[c.ID] = c.State
	}
	return out
}

func approvals(t *testing.T, s engine.Store, f engine.ApprovalFilter) []engine.Approval {
	t.Helper()
	found, err := s.Approvals(t.Context(), f)
	if err != nil {
		t.Fatalf("list approvals: %v", err)
	}
	return found
}

func trail(t *testing.T, s engine.Store, f engine.AuditFilter) []engine.Audit {
	t.Helper()
	rows, err := s.AuditTrail(t.Context(), f)
	if err != nil {
		t.Fatalf("read the audit trail: %v", err)
	}
	return rows
}

func wantCode(t *testing.T, err error, want engine.Code) {
	t.Helper()
	if err == nil || engine.CodeOf(err) != want {
		t.Errorf("error is %v (%s), want one with code %s", err, engine.CodeOf(err), want)
	}
}

func wantEqual(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// race runs do n times at once and returns the errors.
func race(n int, do func(i int) error) []error {
	errs := make([]error, n)
	gate := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-gate
			errs[i] = do(i)
		})
	}
	close(gate)
	wg.Wait()
	return errs
}

// wantWinners checks that so many succeeded and that all others met a conflict.
func wantWinners(t *testing.T, errs []error, want int) {
	t.Helper()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
			continue
		}
		wantCode(t, err, engine.CodeConflict)
	}
	if won != want {
		t.Errorf("%d of %d succeeded, want %d", won, len(errs), want)
	}
}

func numbered(prefix string, i int) string { return fmt.Sprintf("%s-%d", prefix, i) }
