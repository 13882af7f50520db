package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/rundir"
)

// asking is an entry that asks whether a command may be run.
func asking(id, command string) agent.Entry {
	return agent.Entry{Kind: agent.KindApproval, ID: id, Content: "run `" + command + "`?", Time: time.Now().UTC(), Ask: &agent.Ask{
		State: agent.AskOpen, Tool: "Bash", Action: agent.ActionCommandRun, Input: fmt.Appendf(nil, `{"command":%q}`, command),
	}}
}

// approval waits until an ask of an execution is in that state.
func (f *fixture) approval(id, askID string, state agent.AskState) engine.Approval {
	f.Helper()
	var got engine.Approval
	f.until(id, func(engine.Execution) bool {
		all, err := f.e.Approvals(f.Context(), engine.ApprovalFilter{ExecutionID: id})
		if err != nil {
			f.Fatal(err)
		}
		i := slices.IndexFunc(all, func(a engine.Approval) bool { return a.AskID == askID && a.State == state })
		if i >= 0 {
			got = all[i]
		}
		return i >= 0
	})
	return got
}

func (f *fixture) decide(a engine.Approval, d agent.Decision, keep *engine.Remember) engine.Approval {
	f.Helper()
	got, err := f.e.Decide(f.Context(), a.ID, d, keep)
	if err != nil {
		f.Fatal(err)
	}
	return got
}

// remembered makes a rule of the answer to an ask of an execution of its own.
func (f *fixture) remembered(command string, allow bool, keep engine.Remember) engine.Rule {
	f.Helper()
	x := f.submit(engine.Request{Text: "make a rule"})
	p := f.started()
	p.says(asking("rule", command))
	f.decide(f.approval(x.ID, "rule", agent.AskOpen), agent.Decision{Allow: allow, By: "ann", Message: "because"}, &keep)
	p.result <- rundir.Result{Status: rundir.Succeeded, EndedAt: f.clock()}
	f.until(x.ID, is(engine.Succeeded))
	rules := f.rules()
	return rules[len(rules)-1]
}

func (f *fixture) rules() []engine.Rule {
	f.Helper()
	rules, err := f.e.Rules(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	return rules
}

// decisions are the decisions that a runner was told, by their ask. An order that comes
// again, after a stop between delivery and noting it, is known to a runner by its id.
func decisions(p *player) map[string][]agent.Decision {
	out, known := map[string][]agent.Decision{}, map[string]bool{}
	for _, c := range p.got() {
		if c.Op == rundir.OpDecide && !known[c.ID] {
			known[c.ID] = true
			out[c.Decision.AskID] = append(out[c.Decision.AskID], *c.Decision)
		}
	}
	return out
}

// decided waits until a runner was told what was decided about an ask.
func (f *fixture) decided(p *player, askID string) agent.Decision {
	f.Helper()
	f.until(p.spec.ExecutionID, func(engine.Execution) bool { return len(decisions(p)[askID]) > 0 })
	return decisions(p)[askID][0]
}

func TestARuleDecides(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	rule := f.remembered("make test", true, engine.Remember{Scope: engine.ScopeProject, Match: "make *"})
	if rule.CreatedBy != "ann" || rule.Tool != "Bash" || rule.ExpiresAt != nil || rule.Decision != engine.Allow {
		t.Errorf("the rule is %+v", rule)
	}
	x := f.submit(engine.Request{Text: "1"})
	p := f.started()
	p.says(asking("a", "make all"), asking("b", "make all; rm -rf ."), activity(agent.Approval))
	if d := f.decided(p, "a"); !d.Allow || d.By != "rule "+rule.ID {
		t.Errorf("the runner was told %+v", d)
	}
	decided := f.approval(x.ID, "a", agent.AskDecided)
	if open := f.approval(x.ID, "b", agent.AskOpen); open.Risk != engine.RiskHigh || decided.Risk != engine.RiskMedium {
		t.Errorf("the risks are %q and %q", decided.Risk, open.Risk)
	}
	rows, err := f.e.AuditTrail(t.Context(), engine.AuditFilter{Object: decided.ID})
	if err != nil || len(rows) != 1 || rows[0].Actor != "rule "+rule.ID || rows[0].Detail["rule"] != rule.ID {
		t.Errorf("audit rows %+v, %v", rows, err)
	}
	if _, err := f.e.Decide(t.Context(), decided.ID, agent.Decision{By: "bob"}, nil); engine.CodeOf(err) != engine.CodeConflict || !strings.Contains(err.Error(), rule.ID) {
		t.Errorf("after the rule, bob got %v", err)
	}
	p.says(asking("a", "make all")) // the same again
	if used := f.rules()[0]; used.Uses != 1 || used.LastUsedAt == nil || len(decisions(p)["a"]) != 1 {
		t.Errorf("used %d times, told %+v", used.Uses, decisions(p)["a"])
	}
}

func TestADenyingRuleStandsAbove(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.remembered("make test", true, engine.Remember{Scope: engine.ScopeProject, Match: "make *"})
	deny := f.remembered("git push", false, engine.Remember{Scope: engine.ScopeUser, Match: "*push"})
	f.submit(engine.Request{Text: "1"})
	p := f.started()
	p.says(asking("a", "make push"))
	if d := f.decided(p, "a"); d.Allow || d.By != "rule "+deny.ID || d.Message != "because" {
		t.Errorf("the runner was told %+v", d)
	}
}

// A service that is killed right after an ask was committed, and one that is away while
// the rule is made, hold it against the rules when they follow the run again.
func TestRulesAfterARestart(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	rule := f.remembered("make test", true, engine.Remember{Scope: engine.ScopeUser, For: time.Hour})
	x := f.submit(engine.Request{Text: "1"})
	p := f.started()
	p.says(activity(agent.Working))
	f.until(x.ID, func(x engine.Execution) bool { return x.Activity == agent.Working })
	f.stop()
	p.seq++
	ask := asking("a", "make test")
	err := f.store.Commit(t.Context(), engine.Progress{ID: x.ID, Cursor: p.cursor(), Asks: []engine.Approval{
		{AskID: "a", Kind: agent.KindApproval, Ask: *ask.Ask, State: agent.AskOpen},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		f.restart()
		if d := f.decided(p, "a"); d.By != "rule "+rule.ID {
			t.Errorf("the runner was told %+v", d)
		}
		f.stop()
	}
	f.restart()
	if n := len(decisions(p)["a"]); n != 1 || f.rules()[0].Uses != 1 {
		t.Errorf("told %d times, used %d times", n, f.rules()[0].Uses)
	}
}

func TestWhatARuleIsNotAbout(t *testing.T) {
	t.Parallel()
	elsewhere := t.TempDir()
	f := newFixture(t, func(c *engine.Catalog) {
		a := c.Agents["bot"]
		a.ID, a.WorkingDir = "other", elsewhere
		c.Agents["other"], c.AllowedDirs = a, append(c.AllowedDirs, elsewhere)
	})
	rule := f.remembered("make test", true, engine.Remember{Scope: engine.ScopeProject, For: time.Hour})
	f.remembered("make lint", true, engine.Remember{Scope: engine.ScopeRun})
	x := f.submit(engine.Request{Text: "1", Agent: "other"})
	p := f.started()
	p.says(asking("a", "make test"))
	f.approval(x.ID, "a", agent.AskOpen)

	here := f.submit(engine.Request{Text: "2"})
	q := f.started()
	q.says(asking("run", "make lint"), asking("a", "make test"))
	f.decided(q, "a")
	f.approval(here.ID, "run", agent.AskOpen)
	f.pass(time.Hour)
	q.says(asking("late", "make test"))
	f.approval(here.ID, "late", agent.AskOpen)
	if rules := f.rules(); len(rules) != 1 {
		t.Errorf("in force are %+v", rules)
	}
	if _, err := f.e.RemoveRule(t.Context(), rule.ID, "ann"); err != nil {
		t.Error(err)
	}
	if n := len(decisions(p)) + len(decisions(q)); n != 1 {
		t.Errorf("%d were decided", n)
	}
}

// A rule that is made while other asks are open is about them, too.
func TestANewRuleDecidesWhatIsOpen(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	x := f.submit(engine.Request{Text: "1"})
	p := f.started()
	p.says(agent.Entry{Kind: agent.KindStatus, Status: &agent.Status{SessionRef: "s-1"}}, asking("a", "make a"), asking("b", "make b"), asking("c", "ls"))
	f.decide(f.approval(x.ID, "a", agent.AskOpen), agent.Decision{Allow: true, By: "ann"}, &engine.Remember{Scope: engine.ScopeSession, Match: "make ?"})
	f.decided(p, "b")
	f.approval(x.ID, "c", agent.AskOpen)
	if r := f.rules()[0]; r.Subject != "s-1" || r.Uses != 1 {
		t.Errorf("the rule is %+v", r)
	}
}

func TestWhatCannotBeRemembered(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	x := f.submit(engine.Request{Text: "1"})
	p := f.started()
	p.says(asking("a", "make a"), agent.Entry{Kind: agent.KindQuestion, ID: "q", Ask: &agent.Ask{State: agent.AskOpen, Questions: []agent.Question{{Text: "?"}}}})
	a, q := f.approval(x.ID, "a", agent.AskOpen), f.approval(x.ID, "q", agent.AskOpen)
	if q.Risk != "" {
		t.Errorf("a question has the risk %q", q.Risk)
	}
	for name, c := range map[string]struct {
		a    engine.Approval
		d    agent.Decision
		keep engine.Remember
	}{
		"no session":        {a, agent.Decision{Allow: true}, engine.Remember{Scope: engine.ScopeSession}},
		"no scope":          {a, agent.Decision{Allow: true}, engine.Remember{}},
		"a negative time":   {a, agent.Decision{Allow: true}, engine.Remember{Scope: engine.ScopeRun, For: -1}},
		"another tool":      {a, agent.Decision{Allow: true}, engine.Remember{Scope: engine.ScopeRun, Tool: "bash"}},
		"a shell character": {a, agent.Decision{}, engine.Remember{Scope: engine.ScopeRun, Match: "make a;*"}},
		"other arguments":   {a, agent.Decision{Allow: true, ModifiedInput: []byte(`{}`)}, engine.Remember{Scope: engine.ScopeRun}},
		"stop":              {a, agent.Decision{Interrupt: true}, engine.Remember{Scope: engine.ScopeRun}},
		"a long pattern":    {a, agent.Decision{Allow: true}, engine.Remember{Scope: engine.ScopeRun, Match: strings.Repeat("*", 9000)}},
		"an answer":         {q, agent.Decision{Allow: true, Answers: map[string]string{"?": "!"}}, engine.Remember{Scope: engine.ScopeRun}},
	} {
		if _, err := f.e.Decide(t.Context(), c.a.ID, c.d, &c.keep); engine.CodeOf(err) != engine.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(f.rules()) != 0 || len(p.got()) != 0 {
		t.Errorf("rules %+v, told %+v", f.rules(), p.got())
	}
}
