package storetest

import (
	"testing"
	"time"

	"github.com/threadmill/threadmill/engine"
)

func taskTests() map[string]func(*testing.T, engine.Store) {
	return map[string]func(*testing.T, engine.Store){
		"kept whole":                 keepsTask,
		"follow their execution":     followsExecution,
		"busy while one goes on":     staysBusy,
		"taken up again":             takenUpAgain,
		"the tail is bounded":        tailBounded,
		"pages and filter":           taskPages,
		"a failure without an error": unnamedFailure,
	}
}

func keepsTask(t *testing.T, s engine.Store) {
	want := engine.Task{
		ID: "t", Title: "Title", Context: "a\nb", DocsPath: "docs/t", CapabilityID: "ask", Status: engine.Todo,
		CreatedBy: "web", CreatedAt: start(), UpdatedAt: after(time.Second),
	}
	row := engine.Audit{At: start(), Actor: "web", Action: "task.create", Object: "t", Allowed: true}
	if err := s.CreateTask(t.Context(), want, row); err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "task", task(t, s, "t"), want)
	wantEqual(t, "audit rows", len(trail(t, s, engine.AuditFilter{Object: "t"})), 1)
	wantCode(t, s.CreateTask(t.Context(), want, row), engine.CodeConflict)
	wantEqual(t, "audit rows", len(trail(t, s, engine.AuditFilter{Object: "t"})), 1)
	_, err := s.Task(t.Context(), "nothing")
	wantCode(t, err, engine.CodeNotFound)
}

func followsExecution(t *testing.T, s engine.Store) {
	for _, end := range engine.Statuses() {
		if !end.Ended() {
			continue
		}
		e := queued(t, s)
		k := task(t, s, e.TaskID)
		wantEqual(t, "while queued", k.Status, engine.InProgress)
		path := pathTo(end)
		e = become(t, s, e, path[:len(path)-1]...)
		when := after(time.Hour)
		c := engine.Change{ID: e.ID, To: end, At: when, Tail: []string{"one", "two"}}
		if end != engine.Succeeded {
			c.Error = "it broke"
		}
		change(t, s, c)
		k.Status, k.Error, k.Tail, k.UpdatedAt = engine.AfterExecution(end), c.Error, c.Tail, when
		wantEqual(t, "after "+string(end), task(t, s, e.TaskID), k)
	}
}

func inTask(id string) func(*engine.NewExecution) {
	return func(n *engine.NewExecution) { n.Task.ID, n.Execution.TaskID = id, id }
}

func staysBusy(t *testing.T, s engine.Store) {
	a := running(t, s)
	b := queued(t, s, inTask(a.TaskID))
	change(t, s, engine.Change{ID: a.ID, To: engine.Failed, At: after(time.Hour), Error: "it broke", Tail: []string{"last"}})
	k := task(t, s, a.TaskID)
	if k.Status != engine.InProgress || k.Error != "" || len(k.Tail) != 1 {
		t.Errorf("while another is queued: %+v", k)
	}
	become(t, s, b, engine.Running, engine.Succeeded)
	k = task(t, s, a.TaskID)
	if k.Status != engine.Review || len(k.Tail) != 1 {
		t.Errorf("after the last one: %+v", k)
	}
}

func takenUpAgain(t *testing.T, s engine.Store) {
	e := running(t, s)
	change(t, s, engine.Change{ID: e.ID, To: engine.Failed, At: after(time.Hour), Error: "it broke", Tail: []string{"last"}})
	before := task(t, s, e.TaskID)
	again := queued(t, s, inTask(e.TaskID), func(n *engine.NewExecution) {
		n.Task.Title, n.Execution.CreatedAt = "another title", after(2*time.Hour)
	})
	want := before
	want.Status, want.Error, want.UpdatedAt = engine.InProgress, "", again.CreatedAt
	wantEqual(t, "with a new execution", task(t, s, e.TaskID), want)
}

func tailBounded(t *testing.T, s engine.Store) {
	e := running(t, s)
	var lines []string
	for i := range 2 * engine.TailLines {
		lines = append(lines, numbered("line", i))
	}
	change(t, s, engine.Change{ID: e.ID, To: engine.Succeeded, At: after(time.Hour), Tail: lines})
	wantEqual(t, "tail", task(t, s, e.TaskID).Tail, lines[engine.TailLines:])
}

func taskPages(t *testing.T, s engine.Store) {
	for i := range 5 {
		k := engine.Task{ID: numbered("t", i), Title: "t", Status: engine.Todo, CreatedAt: after(time.Duration(i) * time.Second)}
		if i == 4 {
			k.Status = engine.Done
		}
		if err := s.CreateTask(t.Context(), k, engine.Audit{}); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		status     engine.TaskStatus
		page, size int
		total      int
		want       []string
	}{
		"all":         {"", 0, 0, 5, []string{"t-4", "t-3", "t-2", "t-1", "t-0"}},
		"todo":        {engine.Todo, 1, 2, 4, []string{"t-3", "t-2"}},
		"second page": {engine.Todo, 2, 2, 4, []string{"t-1", "t-0"}},
		"beyond":      {engine.Todo, 3, 2, 4, nil},
		"review":      {engine.Review, 1, 2, 0, nil},
	} {
		found, total, err := s.Tasks(t.Context(), c.status, c.page, c.size)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, k := range found {
			got = append(got, k.ID)
		}
		wantEqual(t, name, got, c.want)
		wantEqual(t, name+", total", total, c.total)
	}
}

func unnamedFailure(t *testing.T, s engine.Store) {
	e := become(t, s, queued(t, s), engine.Cancelling, engine.Cancelled)
	if k := task(t, s, e.TaskID); k.Status != engine.Todo || k.Error == "" {
		t.Errorf("the task is %s and does not say why: %q", k.Status, k.Error)
	}
}
