package storetest

import (
	"testing"
	"time"

	"github.com/threadmill/threadmill/engine"
)

func retentionTests() map[string]func(*testing.T, engine.Store) {
	return map[string]func(*testing.T, engine.Store){
		"old logs, oldest first":     oldLogs,
		"rows never go before files": filesFirst,
		"everything of it goes":      everythingGoes,
		"tasks":                      tasksGo,
		"numbers are not reused":     numbersStay,
		"audit rows":                 auditGoes,
		"more than one portion":      manyPortions,
	}
}

// endedAt returns an execution that ended then.
func endedAt(t *testing.T, s engine.Store, when time.Time, with ...func(*engine.NewExecution)) engine.Execution {
	t.Helper()
	return change(t, s, engine.Change{ID: running(t, s, with...).ID, To: engine.Succeeded, At: when})
}

func filesGone(t *testing.T, s engine.Store, ids ...string) {
	t.Helper()
	if err := s.LogsDeleted(t.Context(), ids); err != nil {
		t.Fatalf("note deleted logs: %v", err)
	}
}

func forget(t *testing.T, s engine.Store, before time.Time) int {
	t.Helper()
	n, err := s.DeleteBefore(t.Context(), before)
	if err != nil {
		t.Fatalf("delete: %v", err)
	}
	return n
}

func oldLogs(t *testing.T, s engine.Store) {
	second, first := endedAt(t, s, after(2*time.Hour)), endedAt(t, s, after(time.Hour))
	endedAt(t, s, after(9*time.Hour))
	running(t, s)
	old := func(limit int) []string {
		found, err := s.LogsBefore(t.Context(), after(3*time.Hour), limit)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, e := range found {
			ids = append(ids, e.ID)
		}
		return ids
	}
	wantEqual(t, "old", old(10), []string{first.ID, second.ID})
	wantEqual(t, "the oldest", old(1), []string{first.ID})
	filesGone(t, s, first.ID)
	wantEqual(t, "left", old(10), []string{second.ID})
	if !get(t, s, first.ID).LogsDeleted {
		t.Error("the execution does not say that its files are gone")
	}
}

func filesFirst(t *testing.T, s engine.Store) {
	e := endedAt(t, s, after(time.Hour))
	live := running(t, s)
	filesGone(t, s, live.ID) // a mistake that must have no effect
	wantEqual(t, "deleted", forget(t, s, after(24*time.Hour)), 0)
	filesGone(t, s, e.ID)
	wantEqual(t, "too early", forget(t, s, after(time.Hour)), 0)
	wantEqual(t, "deleted", forget(t, s, after(24*time.Hour)), 1)
	if get(t, s, live.ID).LogsDeleted {
		t.Error("a live one has no files")
	}
}

func everythingGoes(t *testing.T, s engine.Store) {
	e := running(t, s)
	child := queued(t, s, func(n *engine.NewExecution) { n.Execution.ParentID = e.ID })
	send(t, s, message(e, "id"))
	commit(t, s, engine.Progress{ID: e.ID, Cursor: at(1), Asks: []engine.Approval{openAsk("ask")}})
	change(t, s, engine.Change{ID: e.ID, To: engine.Succeeded, At: after(time.Hour)})
	filesGone(t, s, e.ID)
	wantEqual(t, "deleted", forget(t, s, after(24*time.Hour)), 1)
	_, err := s.Execution(t.Context(), e.ID)
	wantCode(t, err, engine.CodeNotFound)
	wantEqual(t, "commands", len(commands(t, s, e.ID)), 0)
	wantEqual(t, "approvals", len(approvals(t, s, engine.ApprovalFilter{})), 0)
	wantEqual(t, "the child's parent", get(t, s, child.ID).ParentID, "")
}

func tasksGo(t *testing.T, s engine.Store) {
	if err := s.CreateTask(t.Context(), engine.Task{ID: "idea", Title: "idea", CreatedAt: start()}, engine.Audit{}); err != nil {
		t.Fatal(err)
	}
	gone, shared := endedAt(t, s, after(time.Hour)), endedAt(t, s, after(time.Hour))
	queued(t, s, inTask(shared.TaskID))
	filesGone(t, s, gone.ID, shared.ID)
	wantEqual(t, "deleted", forget(t, s, after(24*time.Hour)), 2)
	_, err := s.Task(t.Context(), gone.TaskID)
	wantCode(t, err, engine.CodeNotFound)
	task(t, s, shared.TaskID)
	task(t, s, "idea") // it never held one
}

func numbersStay(t *testing.T, s engine.Store) {
	e := endedAt(t, s, after(time.Hour))
	filesGone(t, s, e.ID)
	forget(t, s, after(24*time.Hour))
	if next := queued(t, s); next.Number != e.Number+1 {
		t.Errorf("after #%d comes #%d", e.Number, next.Number)
	}
}

func auditGoes(t *testing.T, s engine.Store) {
	e, kept := endedAt(t, s, after(time.Hour)), queued(t, s)
	filesGone(t, s, e.ID)
	add(t, s, engine.Audit{At: start(), Action: "login"})
	add(t, s, engine.Audit{At: after(48 * time.Hour), Action: "login"})
	forget(t, s, after(24*time.Hour))
	wantEqual(t, "of the deleted one", len(trail(t, s, engine.AuditFilter{Object: e.ID})), 0)
	wantEqual(t, "of one that is kept", len(trail(t, s, engine.AuditFilter{Object: kept.ID})), 1)
	wantEqual(t, "all", len(trail(t, s, engine.AuditFilter{})), 2)
}

func manyPortions(t *testing.T, s engine.Store) {
	const count = 450
	ids := make([]string, count)
	for _, err := range race(count, func(i int) error {
		n := request()
		ids[i] = n.Execution.ID
		_, _, err := s.CreateExecution(t.Context(), n)
		for _, to := range []engine.Status{engine.Running, engine.Succeeded} {
			if err == nil {
				_, err = s.Transition(t.Context(), engine.Change{ID: ids[i], To: to, At: after(time.Hour)})
			}
		}
		return err
	}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	filesGone(t, s, ids...)
	wantEqual(t, "deleted", forget(t, s, after(24*time.Hour)), count)
	wantEqual(t, "again", forget(t, s, after(24*time.Hour)), 0)
	_, total, err := s.Executions(t.Context(), engine.Filter{})
	if err != nil || total != 0 {
		t.Errorf("%d are left, %v", total, err)
	}
}
