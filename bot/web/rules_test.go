package web_test

import (
	"testing"

	"github.com/threadmill/threadmill/bot/web/api"
	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/agent"
)

func TestADecisionIsRemembered(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	x, run := r.start(t, "chat", "hello")
	run.ask(t, "ask-1")
	_, err := r.client.Decide(t.Context(), r.waiting(t, x.ID).ID, api.DecisionRequest{Decision: api.Allow, Scope: engine.ScopeProject, Persist: api.Forever, Match: "l*"})
	if err != nil {
		t.Fatal(err)
	}
	_, other := r.start(t, "chat", "again")
	other.ask(t, "ask-2")
	var all []engine.Approval
	eventually(t, func() (bool, string) {
		all, err = r.client.Approvals(t.Context(), engine.ApprovalFilter{})
		return err == nil && len(all) == 2 && all[1].State == agent.AskDecided, "the rule does not decide"
	})
	rules, err := r.client.Rules(t.Context())
	if err != nil || len(rules) != 1 || rules[0].ExpiresAt != nil || rules[0].Match != "l*" || rules[0].Uses != 1 {
		t.Fatalf("rules %+v, %v", rules, err)
	}
	if d := all[1].Decision; d == nil || !d.Allow || d.By != "rule "+rules[0].ID {
		t.Errorf("decided %+v", d)
	}
	if gone, err := r.client.RemoveRule(t.Context(), rules[0].ID); err != nil || gone.ID != rules[0].ID {
		t.Errorf("removed %+v, %v", gone, err)
	}
	if _, err := r.client.RemoveRule(t.Context(), rules[0].ID); engine.CodeOf(err) != engine.CodeNotFound {
		t.Errorf("removed twice: %v", err)
	}
	_, third := r.start(t, "chat", "and again")
	third.ask(t, "ask-3")
	r.waiting(t, "3")
}

func TestWhatCannotBeRemembered(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	x, run := r.start(t, "chat", "hello")
	run.ask(t, "ask-1")
	path := "/api/approvals/" + r.waiting(t, x.ID).ID
	for body, says := range map[string]string{
		`{"decision":"allow","persist":"8h"}`:                                            "give its scope",
		`{"decision":"allow","match":"*"}`:                                               "give its scope",
		`{"decision":"allow","scope":"galaxy"}`:                                          "run, session, project, user",
		`{"decision":"allow","scope":"run","persist":"9h"}`:                              "8h, forever",
		`{"decision":"allow","scope":"run","match":"rm *"}`:                              "would not match",
		`{"decision":"allow","scope":"run","tool":"Read"}`:                               "would not match",
		`{"decision":"allow","scope":"run","modifiedInput":{"command":"ls -l"}}`:         "cannot be remembered",
		`{"decision":"deny","scope":"run","interrupt":true,"denyMessage":"not like it"}`: "cannot be remembered",
	} {
		r.do(t, request{method: "POST", path: path, body: body}).wantFailure(t, 400, engine.CodeInvalid, says)
	}
	if rules, err := r.client.Rules(t.Context()); err != nil || len(rules) != 0 {
		t.Errorf("rules %+v, %v", rules, err)
	}
}
