package storetest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/agent"
)

func progressTests() map[string]func(*testing.T, engine.Store) {
	return map[string]func(*testing.T, engine.Store){
		"everything at once":         commitsAll,
		"only what is new":           commitsNew,
		"the cursor never goes back": cursorGuards,
		"only while live":            onlyLive,
		"no activity when cancelled": cancellingShowsNone,
		"idle since":                 idleSince,
		"asks":                       asks,
		"the runner's word":          runnersWord,
		"messages handed over":       handsOver,
	}
}

func openAsk(id string) engine.Approval {
	return engine.Approval{
		AskID: id, Kind: agent.KindApproval, Text: "run `make`?", Risk: engine.RiskMedium, State: agent.AskOpen, CreatedAt: after(time.Minute),
		Ask: agent.Ask{
			State: agent.AskOpen, Tool: "Bash", Action: agent.ActionCommandRun, Input: json.RawMessage(`{"command":"make"}`),
			Deadline: new(after(time.Hour)),
		},
	}
}

func closedAsk(id string, state agent.AskState) engine.Approval {
	a := openAsk(id)
	a.State, a.Ask.State, a.DecidedAt = state, state, new(after(2*time.Minute))
	return a
}

func commitsAll(t *testing.T, s engine.Store) {
	e := running(t, s)
	commit(t, s, engine.Progress{
		ID: e.ID, Cursor: at(7), Activity: agent.Approval, Session: "s-1", Pid: 4711, Tmux: "tm-1",
		Usage: &agent.Usage{InputTokens: 1, OutputTokens: 2, CostUSD: 0.125}, LogBytes: 1000, LogLines: 10,
	})
	want := e
	want.Cursor, want.Activity, want.SessionRef, want.Pid, want.TmuxSession = at(7), agent.Approval, "s-1", 4711, "tm-1"
	want.Usage, want.LogByteSize, want.LogLineCount = agent.Usage{InputTokens: 1, OutputTokens: 2, CostUSD: 0.125}, 1000, 10
	wantEqual(t, "after it", get(t, s, e.ID), want)
}

func commitsNew(t *testing.T, s engine.Store) {
	e := running(t, s)
	commit(t, s, engine.Progress{ID: e.ID, Cursor: at(1), Session: "s-1", Pid: 1, Usage: &agent.Usage{CostUSD: 1}, LogBytes: 5, LogLines: 1})
	want := get(t, s, e.ID)
	commit(t, s, engine.Progress{ID: e.ID, Cursor: at(2)})
	want.Cursor = at(2)
	wantEqual(t, "after the cursor alone", get(t, s, e.ID), want)
	commit(t, s, engine.Progress{ID: e.ID, Cursor: at(2), Usage: &agent.Usage{}})
	want.Usage = agent.Usage{}
	wantEqual(t, "after a usage of nothing", get(t, s, e.ID), want)
}

func cursorGuards(t *testing.T, s engine.Store) {
	e := running(t, s)
	commit(t, s, engine.Progress{ID: e.ID, Cursor: at(5)})
	before := get(t, s, e.ID)
	err := s.Commit(t.Context(), engine.Progress{ID: e.ID, Cursor: at(4), Session: "old", Asks: []engine.Approval{openAsk("old")}})
	wantCode(t, err, engine.CodeConflict)
	wantEqual(t, "after an old commit", get(t, s, e.ID), before)
	wantEqual(t, "asks", len(approvals(t, s, engine.ApprovalFilter{})), 0)
	commit(t, s, engine.Progress{ID: e.ID, Cursor: at(5), Tmux: "tm-1"}) // no entry, but news
}

func onlyLive(t *testing.T, s engine.Store) {
	for _, st := range engine.Statuses() {
		e := become(t, s, queued(t, s), pathTo(st)...)
		err := s.Commit(t.Context(), engine.Progress{ID: e.ID, Cursor: at(1), Pid: 1})
		if st.Live() {
			if err != nil {
				t.Errorf("while %s: %v", st, err)
			}
			continue
		}
		wantCode(t, err, engine.CodeConflict)
		wantEqual(t, "while "+string(st), get(t, s, e.ID), e)
	}
	wantCode(t, s.Commit(t.Context(), engine.Progress{ID: "nothing", Cursor: at(1)}), engine.CodeNotFound)
}

func cancellingShowsNone(t *testing.T, s engine.Store) {
	e := become(t, s, queued(t, s), engine.Running, engine.Cancelling)
	commit(t, s, engine.Progress{ID: e.ID, Cursor: at(1), Activity: agent.Working})
	if got := get(t, s, e.ID); got.Activity != "" || got.Cursor != at(1) {
		t.Errorf("activity %q at %+v", got.Activity, got.Cursor)
	}
}

func idleSince(t *testing.T, s engine.Store) {
	e := running(t, s)
	commit(t, s, engine.Progress{ID: e.ID, Cursor: at(1), Activity: agent.Idle})
	first := get(t, s, e.ID).IdleSince
	if first == nil {
		t.Fatal("an idle one does not say since when")
	}
	commit(t, s, engine.Progress{ID: e.ID, Cursor: at(2), Activity: agent.Idle})
	commit(t, s, engine.Progress{ID: e.ID, Cursor: at(3)})
	wantEqual(t, "still idle since", get(t, s, e.ID).IdleSince, first)
	commit(t, s, engine.Progress{ID: e.ID, Cursor: at(3), Activity: agent.Idle, Worked: true})
	if again := get(t, s, e.ID).IdleSince; again == nil || !again.After(*first) {
		t.Errorf("idle since %v, and after a turn in between since %v", first, again)
	}
	commit(t, s, engine.Progress{ID: e.ID, Cursor: at(4), Activity: agent.Working})
	if get(t, s, e.ID).IdleSince != nil {
		t.Error("a working one is idle since")
	}
	commit(t, s, engine.Progress{ID: e.ID, Cursor: at(5), Activity: agent.Idle})
	if got := change(t, s, engine.Change{ID: e.ID, To: engine.Succeeded, At: after(time.Hour)}); got.IdleSince != nil {
		t.Error("an ended one is idle since")
	}
}

func asks(t *testing.T, s engine.Store) {
	e := running(t, s)
	question := engine.Approval{
		ID: "ours", AskID: "q", Kind: agent.KindQuestion, Text: "which?", State: agent.AskOpen, CreatedAt: after(time.Minute),
		Ask: agent.Ask{State: agent.AskOpen, Questions: []agent.Question{{Text: "which?", Choices: []agent.Choice{{Label: "A"}, {Label: "B"}}}}},
	}
	commit(t, s, engine.Progress{ID: e.ID, Cursor: at(1), Asks: []engine.Approval{openAsk("p"), question}})
	found := approvals(t, s, engine.ApprovalFilter{ExecutionID: e.ID})
	if len(found) != 2 || found[0].ID == "" {
		t.Fatalf("stored are %+v", found)
	}
	permission := openAsk("p")
	permission.ID, permission.ExecutionID, question.ExecutionID = found[0].ID, e.ID, e.ID
	wantEqual(t, "asks", found, []engine.Approval{permission, question})

	known := openAsk("p")
	known.ID, known.Text, known.Ask.Deadline, permission.Ask.Deadline = "another", "changed", new(after(2*time.Hour)), new(after(2*time.Hour))
	commit(t, s, engine.Progress{ID: e.ID, Cursor: at(2), Asks: []engine.Approval{known}})
	wantEqual(t, "after the same again, with another deadline", approvals(t, s, engine.ApprovalFilter{}), []engine.Approval{permission, question})

	one, err := s.Approval(t.Context(), "ours")
	if err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "by id", one, question)
	_, err = s.Approval(t.Context(), "nothing")
	wantCode(t, err, engine.CodeNotFound)
}

func runnersWord(t *testing.T, s engine.Store) {
	e := running(t, s)
	commit(t, s, engine.Progress{ID: e.ID, Cursor: at(1), Asks: []engine.Approval{openAsk("a"), openAsk("b"), openAsk("c")}})
	for _, a := range approvals(t, s, engine.ApprovalFilter{})[:2] {
		decide(t, s, a, "slack:U1")
	}
	typed := closedAsk("c", agent.AskDecided)
	typed.Decision = &agent.Decision{AskID: "c", Allow: true, By: "terminal"}
	commit(t, s, engine.Progress{ID: e.ID, Cursor: at(2), Asks: []engine.Approval{closedAsk("a", agent.AskTimedOut), typed, closedAsk("new", agent.AskWithdrawn)}})
	got := map[string]engine.Approval{}
	for _, a := range approvals(t, s, engine.ApprovalFilter{}) {
		got[a.AskID] = a
	}
	if a := got["a"]; a.State != agent.AskTimedOut || a.Decision != nil || a.Ask.State != agent.AskTimedOut {
		t.Errorf("decided too late: %+v", a)
	}
	if b := got["b"]; b.State != agent.AskDecided || b.Decision.By != "slack:U1" {
		t.Errorf("of which nothing was said: %+v", b)
	}
	if c := got["c"]; c.State != agent.AskDecided || c.Decision == nil || c.Decision.By != "terminal" {
		t.Errorf("decided in the terminal: %+v", c)
	}
	if n := got["new"]; n.State != agent.AskWithdrawn || n.ID == "" {
		t.Errorf("first seen closed: %+v", n)
	}
	commit(t, s, engine.Progress{ID: e.ID, Cursor: at(3), Asks: []engine.Approval{openAsk("a")}})
	if a := approvals(t, s, engine.ApprovalFilter{})[0]; a.State != agent.AskTimedOut {
		t.Errorf("a closed ask is %s again", a.State)
	}
}

func handsOver(t *testing.T, s engine.Store) {
	e, other := running(t, s), running(t, s)
	for _, x := range []engine.Execution{e, other} {
		send(t, s, message(x, "one"))
		send(t, s, message(x, "two"))
	}
	commit(t, s, engine.Progress{ID: e.ID, Cursor: at(1), Handed: []string{"prompt", "one"}})
	wantEqual(t, "its commands", states(t, s, e.ID), map[string]engine.CommandState{"one": engine.Handed, "two": engine.Pending})
	wantEqual(t, "those of another", states(t, s, other.ID), map[string]engine.CommandState{"one": engine.Pending, "two": engine.Pending})
	if commands(t, s, e.ID)[0].SettledAt == nil {
		t.Error("it does not say when")
	}
}
