package storetest

import (
	"testing"
	"time"

	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/agent"
)

func ruleTests() map[string]func(*testing.T, engine.Store) {
	return map[string]func(*testing.T, engine.Store){
		"a decision is remembered": isRemembered,
		"only with the decision":   onlyWithDecision,
		"its uses are counted":     usesCounted,
		"one use of one ask":       oneUse,
		"not when it is gone":      notWhenGone,
		"filters":                  ruleFilters,
		"it is removed":            ruleRemoved,
		"retention":                rulesForgotten,
	}
}

func rule(id string, with ...func(*engine.Rule)) engine.Rule {
	r := engine.Rule{
		ID: id, Decision: engine.Allow, Scope: engine.ScopeProject, Subject: "/srv/app", Tool: "Bash", Match: "make *",
		CreatedBy: "slack:U1", CreatedAt: after(time.Hour),
	}
	for _, f := range with {
		f(&r)
	}
	return r
}

// remember stores a rule, with a decision of its own.
func remember(t *testing.T, s engine.Store, r engine.Rule) engine.Rule {
	t.Helper()
	d := decision(asked(t, s), r.CreatedBy)
	d.Rule = &r
	if _, err := s.Decide(t.Context(), d); err != nil {
		t.Fatalf("remember %s: %v", r.ID, err)
	}
	return r
}

func rules(t *testing.T, s engine.Store, f engine.RuleFilter) []engine.Rule {
	t.Helper()
	found, err := s.Rules(t.Context(), f)
	if err != nil {
		t.Fatalf("list rules: %v", err)
	}
	return found
}

func isRemembered(t *testing.T, s engine.Store) {
	a := remember(t, s, rule("a", func(r *engine.Rule) {
		r.Decision, r.Message, r.ExpiresAt = engine.Deny, "not here", new(after(9*time.Hour))
	}))
	b := remember(t, s, rule("b"))
	wantEqual(t, "rules", rules(t, s, engine.RuleFilter{}), []engine.Rule{a, b})
}

func onlyWithDecision(t *testing.T, s engine.Store) {
	open := asked(t, s)
	decide(t, s, open, "slack:U1")
	late := decision(open, "slack:U2")
	late.Rule = new(rule("late"))
	_, err := s.Decide(t.Context(), late)
	wantCode(t, err, engine.CodeConflict)
	wantEqual(t, "rules", len(rules(t, s, engine.RuleFilter{})), 0)
}

// byRule is what the engine passes on when a rule decides.
func byRule(a engine.Approval, id string) engine.Settlement {
	d := decision(a, "rule "+id)
	d.UsedRule = id
	return d
}

func usesCounted(t *testing.T, s engine.Store) {
	want := remember(t, s, rule("a"))
	for range 2 {
		if _, err := s.Decide(t.Context(), byRule(asked(t, s), "a")); err != nil {
			t.Fatal(err)
		}
	}
	want.Uses, want.LastUsedAt = 2, new(after(time.Hour))
	wantEqual(t, "rules", rules(t, s, engine.RuleFilter{}), []engine.Rule{want})
}

func oneUse(t *testing.T, s engine.Store) {
	remember(t, s, rule("a"))
	open := asked(t, s)
	wantWinners(t, race(racers, func(i int) error {
		d := byRule(open, "a")
		d.Command.ID = numbered("order", i)
		_, err := s.Decide(t.Context(), d)
		return err
	}), 1)
	wantEqual(t, "uses", rules(t, s, engine.RuleFilter{})[0].Uses, int64(1))
	wantEqual(t, "orders", len(commands(t, s, open.ExecutionID)), 1)
}

func notWhenGone(t *testing.T, s engine.Store) {
	remember(t, s, rule("expired", func(r *engine.Rule) { r.ExpiresAt = new(after(time.Hour)) })) // when it decides
	open := asked(t, s)
	for _, id := range []string{"expired", "nothing"} {
		got, err := s.Decide(t.Context(), byRule(open, id))
		wantCode(t, err, engine.CodeConflict)
		if got.ID != open.ID || got.State != agent.AskOpen {
			t.Errorf("by rule %q: %+v", id, got)
		}
	}
	wantEqual(t, "still open", approvals(t, s, engine.ApprovalFilter{OpenOnly: true}), []engine.Approval{open})
	wantEqual(t, "orders", len(commands(t, s, open.ExecutionID)), 0)
	wantEqual(t, "uses", rules(t, s, engine.RuleFilter{})[0].Uses, int64(0))
}

func ruleFilters(t *testing.T, s engine.Store) {
	remember(t, s, rule("app"))
	remember(t, s, rule("soon", func(r *engine.Rule) { r.ExpiresAt = new(after(2 * time.Hour)) }))
	remember(t, s, rule("user", func(r *engine.Rule) { r.Scope, r.Subject = engine.ScopeUser, "slack:U1" }))
	for name, c := range map[string]struct {
		filter engine.RuleFilter
		want   []string
	}{
		"all":           {engine.RuleFilter{}, []string{"app", "soon", "user"}},
		"of one":        {engine.RuleFilter{Subjects: []string{"slack:U1", "nobody"}}, []string{"user"}},
		"of none":       {engine.RuleFilter{Subjects: []string{}}, nil},
		"in force":      {engine.RuleFilter{At: after(2*time.Hour - 1)}, []string{"app", "soon", "user"}},
		"when it ends":  {engine.RuleFilter{At: after(2 * time.Hour)}, []string{"app", "user"}},
		"both":          {engine.RuleFilter{Subjects: []string{"/srv/app"}, At: after(3 * time.Hour)}, []string{"app"}},
		"not by prefix": {engine.RuleFilter{Subjects: []string{"/srv", "/srv/app2", "/srv/app/x"}}, nil},
	} {
		var got []string
		for _, r := range rules(t, s, c.filter) {
			got = append(got, r.ID)
		}
		wantEqual(t, name, got, c.want)
	}
}

func ruleRemoved(t *testing.T, s engine.Store) {
	want := remember(t, s, rule("a"))
	row := engine.Audit{At: after(time.Hour), Actor: "web", Action: "rule.remove", Object: "a", Allowed: true}
	got, err := s.RemoveRule(t.Context(), "a", row)
	if err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "returned", got, want)
	wantEqual(t, "left", len(rules(t, s, engine.RuleFilter{})), 0)
	wantEqual(t, "audit rows", len(trail(t, s, engine.AuditFilter{Object: "a"})), 1)
	_, err = s.RemoveRule(t.Context(), "a", row)
	wantCode(t, err, engine.CodeNotFound)
	wantEqual(t, "audit rows after nothing", len(trail(t, s, engine.AuditFilter{Object: "a"})), 1)
}

func rulesForgotten(t *testing.T, s engine.Store) {
	e, live := endedAt(t, s, after(time.Hour)), running(t, s)
	filesGone(t, s, e.ID)
	of := func(x engine.Execution) func(*engine.Rule) {
		return func(r *engine.Rule) { r.Scope, r.Subject = engine.ScopeRun, x.ID }
	}
	remember(t, s, rule("kept"))
	remember(t, s, rule("expired", func(r *engine.Rule) { r.ExpiresAt = new(after(time.Hour)) }))
	remember(t, s, rule("not yet", func(r *engine.Rule) { r.ExpiresAt = new(after(48 * time.Hour)) }))
	remember(t, s, rule("its run is gone", of(e)))
	remember(t, s, rule("its run lives", of(live)))
	forget(t, s, after(24*time.Hour))
	var left []string
	for _, r := range rules(t, s, engine.RuleFilter{}) {
		left = append(left, r.ID)
	}
	wantEqual(t, "left", left, []string{"kept", "not yet", "its run lives"})
}
