package storetest

import (
	"strconv"
	"testing"
	"time"

	"github.com/threadmill/threadmill/engine"
)

func executionTests() map[string]func(*testing.T, engine.Store) {
	return map[string]func(*testing.T, engine.Store){
		"keep what was asked":        keepsRequest,
		"found by id and number":     foundByRef,
		"one per idempotency key":    oncePerKey,
		"refused at the limit":       refusedAtLimit,
		"idle ones hold no place":    idleHoldsNoPlace,
		"pages, newest first":        executionPages,
		"filters":                    executionFilters,
		"active ones, oldest first":  activeOnes,
		"heartbeats of live ones":    heartbeats,
		"a missing task is an error": missingTask,
	}
}

func keepsRequest(t *testing.T, s engine.Store) {
	parent := queued(t, s)
	n := request(func(n *engine.NewExecution) {
		e := &n.Execution
		e.ParentID, e.Mode, e.Once, e.SessionRef, e.Fork = parent.ID, engine.ModeTemplate, true, "session-1", true
		e.Args = map[string]any{
			"unit": "nginx", "lines": int64(12345678901234567), "ratio": 0.5, "all": true, "none": nil,
			"deep": []any{int64(1), map[string]any{"x": "é\n\x00"}},
		}
		e.Argv, e.Attachments = []string{"/bin/echo", "", "a b"}, []string{"/tmp/a.png"}
		e.IdempotencyKey, e.Resumes, e.Prompt = "key", 2, "a\x00b\n'\"; é"
	})
	got, created, err := s.CreateExecution(t.Context(), n)
	if err != nil || !created {
		t.Fatalf("created %v, %v", created, err)
	}
	want := n.Execution
	want.Number = parent.Number + 1
	wantEqual(t, "as created", got, want)
	wantEqual(t, "as read", get(t, s, n.Execution.ID), want)
	k := n.Task
	k.Status, k.UpdatedAt = engine.InProgress, n.Execution.CreatedAt
	wantEqual(t, "its task", task(t, s, k.ID), k)
	wantEqual(t, "its audit rows", len(trail(t, s, engine.AuditFilter{Object: got.ID})), 1)
}

func foundByRef(t *testing.T, s engine.Store) {
	e := queued(t, s)
	number := strconv.FormatInt(e.Number, 10)
	for _, ref := range []string{e.ID, number, "#" + number} {
		wantEqual(t, ref, get(t, s, ref), e)
	}
	if e.Number != 1 {
		t.Errorf("the first number is %d", e.Number)
	}
	for _, ref := range []string{"", "#", "2", "-1", "+1", "#x", "1 ", "99999999999999999999", "nothing"} {
		_, err := s.Execution(t.Context(), ref)
		wantCode(t, err, engine.CodeNotFound)
	}
}

func oncePerKey(t *testing.T, s engine.Store) {
	keyed := func(n *engine.NewExecution) { n.Execution.IdempotencyKey = "same" }
	first := queued(t, s, keyed)
	again := request(keyed)
	again.RejectAt = 1 // it was accepted before: the limit does not count again
	second, created, err := s.CreateExecution(t.Context(), again)
	if err != nil || created {
		t.Fatalf("created %v, %v", created, err)
	}
	wantEqual(t, "the earlier one", second, first)
	if _, err := s.Task(t.Context(), again.Task.ID); err == nil {
		t.Error("a task was stored for a request that was seen before")
	}
	wantEqual(t, "audit rows", len(trail(t, s, engine.AuditFilter{})), 1)
	queued(t, s)
	queued(t, s) // no key is not a key
}

func refusedAtLimit(t *testing.T, s engine.Store) {
	limited := func(n *engine.NewExecution) { n.RejectAt = 2 }
	first := queued(t, s, limited)
	queued(t, s, limited)
	refused := request(limited)
	_, _, err := s.CreateExecution(t.Context(), refused)
	wantCode(t, err, engine.CodeConflict)
	if _, err := s.Task(t.Context(), refused.Task.ID); err == nil {
		t.Error("a refused request left its task")
	}
	queued(t, s, limited, func(n *engine.NewExecution) { n.Execution.AgentID = "other" })
	become(t, s, first, engine.Running, engine.Succeeded)
	if e := queued(t, s, limited); e.Number != 4 {
		t.Errorf("its number is %d: the refused one used one up", e.Number)
	}
}

func idleHoldsNoPlace(t *testing.T, s engine.Store) {
	limited := func(n *engine.NewExecution) { n.RejectAt = 1 }
	e := running(t, s, limited)
	_, _, err := s.CreateExecution(t.Context(), request(limited))
	wantCode(t, err, engine.CodeConflict)
	commit(t, s, engine.Progress{ID: e.ID, Cursor: at(1), Activity: "idle"})
	queued(t, s, limited)
}

func executionPages(t *testing.T, s engine.Store) {
	for range 53 {
		queued(t, s)
	}
	for _, c := range []struct{ page, size, first, count int }{
		{0, 0, 53, 50},
		{1, 50, 53, 50},
		{2, 0, 3, 3},
		{2, 10, 43, 10},
		{6, 10, 3, 3},
		{7, 10, 0, 0},
		{1, 1000, 53, 53},
		{1 << 62, 200, 0, 0},
		{-1, -1, 53, 50},
	} {
		found, total, err := s.Executions(t.Context(), engine.Filter{Page: c.page, PageSize: c.size})
		if err != nil {
			t.Fatalf("page %d of %d: %v", c.page, c.size, err)
		}
		if total != 53 || len(found) != c.count {
			t.Errorf("page %d of %d has %d of %d, want %d of 53", c.page, c.size, len(found), total, c.count)
		}
		for i, e := range found {
			if e.Number != int64(c.first-i) {
				t.Errorf("page %d of %d: place %d has #%d, want #%d", c.page, c.size, i, e.Number, c.first-i)
			}
		}
	}
}

func executionFilters(t *testing.T, s engine.Store) {
	a := queued(t, s)
	b := running(t, s, func(n *engine.NewExecution) { n.Execution.AgentID = "codex" })
	c := running(t, s, func(n *engine.NewExecution) { n.Task.ID, n.Execution.TaskID = a.TaskID, a.TaskID })
	for name, x := range map[string]struct {
		filter engine.Filter
		want   []int64
	}{
		"all":      {engine.Filter{}, []int64{c.Number, b.Number, a.Number}},
		"task":     {engine.Filter{TaskID: a.TaskID}, []int64{c.Number, a.Number}},
		"agent":    {engine.Filter{AgentID: "codex"}, []int64{b.Number}},
		"status":   {engine.Filter{Statuses: []engine.Status{engine.Running}}, []int64{c.Number, b.Number}},
		"statuses": {engine.Filter{Statuses: []engine.Status{engine.Running, engine.Queued}}, []int64{c.Number, b.Number, a.Number}},
		"together": {engine.Filter{TaskID: a.TaskID, AgentID: "claude", Statuses: []engine.Status{engine.Queued}}, []int64{a.Number}},
		"none":     {engine.Filter{TaskID: "'; DROP TABLE executions; --"}, nil},
	} {
		found, total, err := s.Executions(t.Context(), x.filter)
		if err != nil || total != len(x.want) {
			t.Errorf("%s: %d, %v", name, total, err)
		}
		var got []int64
		for _, e := range found {
			got = append(got, e.Number)
		}
		wantEqual(t, name, got, x.want)
	}
}

func activeOnes(t *testing.T, s engine.Store) {
	one := queued(t, s)
	two := running(t, s)
	become(t, s, queued(t, s), engine.Running, engine.Failed)
	three := become(t, s, queued(t, s), engine.Cancelling)
	become(t, s, queued(t, s), engine.Cancelling, engine.Cancelled)
	found, err := s.Active(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "active", found, []engine.Execution{one, two, three})
}

func heartbeats(t *testing.T, s engine.Store) {
	live, waiting := running(t, s), queued(t, s)
	when := after(time.Hour)
	if err := s.Heartbeat(t.Context(), []string{live.ID, waiting.ID, "unknown"}, when); err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "of a live one", get(t, s, live.ID).HeartbeatAt, &when)
	if get(t, s, waiting.ID).HeartbeatAt != nil {
		t.Error("a queued one has a heartbeat")
	}
	if err := s.Heartbeat(t.Context(), nil, when); err != nil {
		t.Errorf("of none: %v", err)
	}
}

func missingTask(t *testing.T, s engine.Store) {
	n := request()
	n.Task = engine.Task{}
	_, _, err := s.CreateExecution(t.Context(), n)
	wantCode(t, err, engine.CodeNotFound)
	existing := queued(t, s)
	n = request(func(n *engine.NewExecution) { n.Task, n.Execution.TaskID = engine.Task{}, existing.TaskID })
	if _, _, err := s.CreateExecution(t.Context(), n); err != nil {
		t.Errorf("in a task that is there: %v", err)
	}
}
