package storetest

import (
	"testing"
	"time"

	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/rundir"
)

func commandTests() map[string]func(*testing.T, engine.Store) {
	return map[string]func(*testing.T, engine.Store){
		"kept whole, in order":    keepsCommands,
		"once per id":             oncePerID,
		"not to what has ended":   notToEnded,
		"settling":                settling,
		"a late answer":           lateAnswer,
		"audited with the change": auditedCommand,
	}
}

func settle(t *testing.T, s engine.Store, c engine.Command) {
	t.Helper()
	if err := s.SettleCommand(t.Context(), c); err != nil {
		t.Fatalf("settle command %s: %v", c.ID, err)
	}
}

func keepsCommands(t *testing.T, s engine.Store) {
	e := running(t, s)
	want := []engine.Command{
		message(e, "z"),
		{ExecutionID: e.ID, State: engine.Pending, CreatedAt: start(), Command: rundir.Command{ID: "a", Op: rundir.OpResize, Cols: 80, Rows: 24}},
		{ExecutionID: e.ID, State: engine.Pending, CreatedAt: start(), Command: rundir.Command{
			ID: "m", Op: rundir.OpDecide, Decision: &agent.Decision{AskID: "q", Allow: true, Answers: map[string]string{"which?": "A"}},
		}},
	}
	want[0].Message.Attachments, want[0].OnBusy = []string{"/tmp/a.png"}, "steer"
	for _, c := range want {
		wantEqual(t, "as stored", send(t, s, c), c)
	}
	wantEqual(t, "all", commands(t, s, e.ID), want)
	pending, err := s.PendingCommands(t.Context(), e.ID)
	if err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "pending", pending, want)
	none, err := s.Commands(t.Context(), "nothing")
	if err != nil || len(none) != 0 {
		t.Errorf("of no execution: %v, %v", none, err)
	}
}

func oncePerID(t *testing.T, s engine.Store) {
	e, other := running(t, s), running(t, s)
	first := send(t, s, message(e, "id"))
	first.State = engine.Accepted
	settle(t, s, first)
	again := message(e, "id")
	again.Message.Text = "something else"
	stored, created, err := s.AddCommand(t.Context(), again, &engine.Audit{At: start(), Action: "twice"})
	if err != nil || created {
		t.Fatalf("created %v, %v", created, err)
	}
	wantEqual(t, "the earlier one", stored, first)
	wantEqual(t, "audit rows", len(trail(t, s, engine.AuditFilter{Object: ""})), 2)
	send(t, s, message(other, "id")) // another sender's, to another execution
	become(t, s, e, engine.Succeeded)
	if _, created, err := s.AddCommand(t.Context(), again, nil); err != nil || created {
		t.Errorf("said again after the end: created %v, %v", created, err)
	}
}

func notToEnded(t *testing.T, s engine.Store) {
	for _, st := range engine.Statuses() {
		e := become(t, s, queued(t, s), pathTo(st)...)
		_, created, err := s.AddCommand(t.Context(), message(e, "id"), nil)
		if !st.Ended() {
			if err != nil || !created {
				t.Errorf("while %s: created %v, %v", st, created, err)
			}
			continue
		}
		wantCode(t, err, engine.CodeConflict)
		wantEqual(t, "commands while "+string(st), len(commands(t, s, e.ID)), 0)
	}
	_, _, err := s.AddCommand(t.Context(), message(engine.Execution{ID: rundir.NewID()}, "id"), nil)
	wantCode(t, err, engine.CodeNotFound)
}

func settling(t *testing.T, s engine.Store) {
	e := running(t, s)
	want := map[string]engine.Command{}
	for _, st := range []engine.CommandState{engine.Accepted, engine.Handed, engine.Refused} {
		c := send(t, s, message(e, string(st)))
		c.State, c.How, c.SettledAt = st, rundir.HowQueued, new(after(time.Hour))
		if st == engine.Refused {
			c.How, c.Error = "", "busy"
		}
		settle(t, s, c)
		want[c.ID] = c
	}
	waits := send(t, s, message(e, "waits"))
	want[waits.ID] = waits
	for _, c := range commands(t, s, e.ID) {
		wantEqual(t, c.ID, c, want[c.ID])
	}
	pending, err := s.PendingCommands(t.Context(), e.ID)
	if err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "pending", pending, []engine.Command{waits})
	wantCode(t, s.SettleCommand(t.Context(), message(e, "nothing")), engine.CodeNotFound)
}

func lateAnswer(t *testing.T, s engine.Store) {
	e := running(t, s)
	handed, waits := send(t, s, message(e, "handed")), send(t, s, message(e, "waits"))
	commit(t, s, engine.Progress{ID: e.ID, Cursor: at(1), Handed: []string{"handed"}})
	handed.State, handed.How = engine.Accepted, rundir.HowStarted
	settle(t, s, handed)
	got := commands(t, s, e.ID)[0]
	if got.State != engine.Handed || got.How != rundir.HowStarted {
		t.Errorf("handed over before the answer came: %s, %q", got.State, got.How)
	}
	become(t, s, e, engine.Succeeded)
	waits.State, waits.How = engine.Accepted, rundir.HowQueued
	settle(t, s, waits)
	wantEqual(t, "answered after the end", states(t, s, e.ID)["waits"], engine.Undelivered)
}

func auditedCommand(t *testing.T, s engine.Store) {
	e := running(t, s)
	row := engine.Audit{At: start(), Actor: "slack:U1", Action: "execution.message", Object: e.ID, Allowed: true}
	if _, _, err := s.AddCommand(t.Context(), message(e, "id"), &row); err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "newest audit row", trail(t, s, engine.AuditFilter{Object: e.ID})[0].Action, row.Action)
}
