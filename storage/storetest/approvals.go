package storetest

import (
	"testing"
	"time"

	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/rundir"
)

func approvalTests() map[string]func(*testing.T, engine.Store) {
	return map[string]func(*testing.T, engine.Store){
		"a decision and its order": decisionAndOrder,
		"the first one wins":       firstWins,
		"not what is over":         notWhatIsOver,
		"filters":                  approvalFilters,
	}
}

// asked returns an open approval of a running execution.
func asked(t *testing.T, s engine.Store) engine.Approval {
	t.Helper()
	e := running(t, s)
	commit(t, s, engine.Progress{ID: e.ID, Cursor: at(1), Asks: []engine.Approval{openAsk("ask")}})
	return approvals(t, s, engine.ApprovalFilter{ExecutionID: e.ID})[0]
}

// decision is what the engine passes on when somebody decides.
func decision(a engine.Approval, by string) engine.Settlement {
	d := agent.Decision{AskID: a.AskID, Allow: true, By: by}
	a.State, a.Decision, a.DecidedAt = agent.AskDecided, &d, new(after(time.Hour))
	order := engine.Command{
		ExecutionID: a.ExecutionID, State: engine.Pending, CreatedAt: after(time.Hour),
		Command: rundir.Command{ID: "decide-" + a.ID + by, Op: rundir.OpDecide, Decision: &d, By: by},
	}
	return engine.Settlement{
		Approval: a, Command: order,
		Audit: []engine.Audit{{At: after(time.Hour), Actor: by, Action: "approval.decide", Object: a.ID, Allowed: true}},
	}
}

func decide(t *testing.T, s engine.Store, a engine.Approval, by string) engine.Approval {
	t.Helper()
	got, err := s.Decide(t.Context(), decision(a, by))
	if err != nil {
		t.Fatalf("decide: %v", err)
	}
	return got
}

func decisionAndOrder(t *testing.T, s engine.Store) {
	open := asked(t, s)
	d := decision(open, "slack:U1")
	want, row := d.Approval, d.Audit[0]
	want.Ask.State, want.Ask.Decision = want.State, want.Decision
	wantEqual(t, "returned", decide(t, s, open, "slack:U1"), want)
	stored, err := s.Approval(t.Context(), open.ID)
	if err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "stored", stored, want)
	wantEqual(t, "order", commands(t, s, open.ExecutionID), []engine.Command{d.Command})
	rows := trail(t, s, engine.AuditFilter{Object: open.ID})
	row.ID = rows[0].ID
	wantEqual(t, "audit rows", rows, []engine.Audit{row})
}

func firstWins(t *testing.T, s engine.Store) {
	open := asked(t, s)
	first := decide(t, s, open, "slack:U1")
	got, err := s.Decide(t.Context(), decision(open, "slack:U2"))
	wantCode(t, err, engine.CodeConflict)
	wantEqual(t, "as decided", got, first)
	wantEqual(t, "orders", len(commands(t, s, open.ExecutionID)), 1)
	wantEqual(t, "audit rows", len(trail(t, s, engine.AuditFilter{Object: open.ID})), 1)
}

func notWhatIsOver(t *testing.T, s engine.Store) {
	open := asked(t, s)
	change(t, s, engine.Change{ID: open.ExecutionID, To: engine.Failed, At: after(time.Hour)})
	late := decision(open, "slack:U1")
	got, err := s.Decide(t.Context(), late)
	wantCode(t, err, engine.CodeConflict)
	wantEqual(t, "state", got.State, agent.AskWithdrawn)
	late.Approval.ID = "nothing"
	_, err = s.Decide(t.Context(), late)
	wantCode(t, err, engine.CodeNotFound)
}

func approvalFilters(t *testing.T, s engine.Store) {
	a, b := asked(t, s), asked(t, s)
	decide(t, s, b, "web")
	for name, c := range map[string]struct {
		filter engine.ApprovalFilter
		want   []string
	}{
		"all":      {engine.ApprovalFilter{}, []string{a.ID, b.ID}},
		"open":     {engine.ApprovalFilter{OpenOnly: true}, []string{a.ID}},
		"of one":   {engine.ApprovalFilter{ExecutionID: b.ExecutionID}, []string{b.ID}},
		"open of":  {engine.ApprovalFilter{ExecutionID: b.ExecutionID, OpenOnly: true}, nil},
		"of none":  {engine.ApprovalFilter{ExecutionID: "nothing"}, nil},
		"open one": {engine.ApprovalFilter{ExecutionID: a.ExecutionID, OpenOnly: true}, []string{a.ID}},
	} {
		var got []string
		for _, x := range approvals(t, s, c.filter) {
			got = append(got, x.ID)
		}
		wantEqual(t, name, got, c.want)
	}
}
