package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/rundir"
)

// maxPattern bounds a rule's patterns.
const maxPattern = 8 << 10

// Remember asks to keep a decision as a rule.
type Remember struct {
	Scope Scope
	For   time.Duration // 0: for ever
	Tool  string        // glob of tools; empty: this tool
	Match string        // glob of arguments; empty: exactly this one
}

// Decide settles what an agent waits for. The first decision wins; the one that
// comes too late learns who was first, or that nobody was in time. With keep it also
// becomes a rule, which at once decides whatever else is open and matches.
func (e *Engine) Decide(ctx context.Context, id string, d agent.Decision, keep *Remember) (Approval, error) {
	a, err := e.store.Approval(ctx, id)
	if err != nil {
		return a, err
	}
	if a.State != agent.AskOpen {
		return a, tooLate(a)
	}
	if a.Kind == agent.KindQuestion && len(d.Answers) == 0 && d.Allow {
		return a, Errorf(CodeInvalid, "the question needs an answer")
	}
	s := e.settlement(a, d)
	if keep != nil {
		if err := e.remember(ctx, &s, *keep); err != nil {
			return a, err
		}
	}
	answer, stop := e.await(s.Command.ID)
	defer stop()
	decided, err := e.store.Decide(ctx, s)
	if err != nil {
		if CodeOf(err) == CodeConflict && decided.ID != "" {
			return decided, tooLate(decided)
		}
		return decided, err
	}
	if s.Rule != nil { // the rule is there, also when whoever made it does not wait for the answer
		if err := e.applyRules(context.WithoutCancel(ctx), ApprovalFilter{}); err != nil {
			e.log.ErrorContext(ctx, "a new rule could not be applied to what was open", "rule", s.Rule.ID, "error", err)
		}
	}
	_, err = e.answered(ctx, s.Command, answer)
	return decided, err
}

// settlement is what a decision changes.
func (e *Engine) settlement(a Approval, d agent.Decision) Settlement {
	at := e.now().UTC()
	d.AskID = a.AskID
	a.State, a.Decision, a.DecidedAt = agent.AskDecided, &d, &at
	return Settlement{
		Approval: a,
		Command: Command{
			ExecutionID: a.ExecutionID, State: Pending, CreatedAt: at,
			Command: rundir.Command{ID: "decide-" + a.ID, Op: rundir.OpDecide, Decision: &d, By: d.By},
		},
		Audit: []Audit{{At: at, Actor: d.By, Action: "approval.decide", Object: a.ID, Allowed: true, Detail: map[string]any{"allow": d.Allow}}},
	}
}

func tooLate(a Approval) error {
	switch {
	case a.State == agent.AskTimedOut:
		return Errorf(CodeConflict, "nobody decided this in time; the agent went on without")
	case a.State == agent.AskWithdrawn:
		return Errorf(CodeConflict, "the agent no longer waits for this")
	case a.Decision != nil && a.Decision.By != "":
		return Errorf(CodeConflict, "%s decided this already", a.Decision.By)
	}
	return Errorf(CodeConflict, "this was decided already")
}

// remember adds the rule to a settlement.
func (e *Engine) remember(ctx context.Context, s *Settlement, keep Remember) error {
	x, err := e.store.Execution(ctx, s.Approval.ExecutionID)
	if err != nil {
		return err
	}
	r, err := ruleFrom(s.Approval, x, keep)
	if err != nil {
		return err
	}
	s.Rule = &r
	s.Audit = append(s.Audit, Audit{
		At: r.CreatedAt, Actor: r.CreatedBy, Action: "rule.create", Object: r.ID, Allowed: true,
		Detail: map[string]any{"decision": string(r.Decision), "scope": string(r.Scope), "subject": r.Subject, "tool": r.Tool, "match": r.Match},
	})
	return nil
}

// ruleFrom makes a rule of a decided approval of x. A rule that would not have decided
// the very thing that it is made of is a mistake, and refused.
func ruleFrom(a Approval, x Execution, keep Remember) (Rule, error) {
	d := a.Decision
	r := Rule{
		ID: rundir.NewID(), Decision: Deny, Scope: keep.Scope, Subject: keep.Scope.subject(x), Tool: keep.Tool, Match: keep.Match,
		Message: d.Message, CreatedBy: d.By, CreatedAt: *a.DecidedAt,
	}
	if d.Allow {
		r.Decision = Allow
	}
	if keep.For > 0 {
		until := r.CreatedAt.Add(keep.For)
		r.ExpiresAt = &until
	}
	if err := canRemember(a, x, keep); err != nil {
		return r, err
	}
	arg := argumentOf(a.Ask, x.Dir)
	r.complete(a.Ask.Tool, arg, x.Dir)
	switch {
	case r.Decision == Allow && arg.unsure:
		return r, Errorf(CodeInvalid, "what this is about cannot be told for sure (a path with \"..\", a link that leads nowhere, or too much to be shown): allow it without remembering")
	case len(r.Tool) > maxPattern || len(r.Match) > maxPattern:
		return r, Errorf(CodeInvalid, "this is too long to be remembered exactly: give a shorter pattern to match, or do not remember it")
	case !r.matches(a.Ask.Tool, arg):
		return r, Errorf(CodeInvalid, "a rule for tool %q and match %q would not match what is asked now; wildcards of an allow rule stand for no shell characters", r.Tool, r.Match)
	}
	return r, nil
}

// canRemember refuses what no rule can say.
func canRemember(a Approval, x Execution, keep Remember) error {
	switch {
	case !slices.Contains(Scopes(), keep.Scope):
		return Errorf(CodeInvalid, "the scope is %q: it can be run, session, project, user", keep.Scope)
	case a.Kind != agent.KindApproval || a.Ask.Tool == "":
		return Errorf(CodeInvalid, "only the permission to use a tool can be remembered")
	case len(a.Decision.ModifiedInput) > 0 || a.Decision.Interrupt:
		return Errorf(CodeInvalid, "changed arguments and the end of a turn cannot be remembered: decide without remembering")
	case keep.Scope.subject(x) == "":
		return Errorf(CodeInvalid, "execution #%d has no %s that a rule could be about", x.Number, keep.Scope)
	case keep.For < 0:
		return Errorf(CodeInvalid, "a decision cannot be remembered for %s", keep.For)
	}
	return nil
}

// complete fills in what was left out: this tool, exactly this argument. A relative
// pattern for files is taken from the working directory, as the files are.
func (r *Rule) complete(tool string, arg argument, dir string) {
	if r.Tool == "" {
		r.Tool = quoteGlob(tool)
	}
	switch {
	case r.Match == "" && arg.text == "" && len(arg.also) > 0:
		r.Match = quoteGlob(arg.also[0])
	case r.Match == "":
		r.Match = quoteGlob(arg.text)
	case arg.kind == argPath && !strings.HasPrefix(r.Match, "/") && !strings.HasPrefix(r.Match, "*"):
		r.Match = quoteGlob(strings.TrimSuffix(dir, "/")) + "/" + strings.TrimPrefix(r.Match, "./")
	}
}

// applyRules decides, of the open approvals that match, those that there are rules for.
// It waits for no runner, and may be repeated: what is decided is no longer open.
func (e *Engine) applyRules(ctx context.Context, f ApprovalFilter) error {
	f.OpenOnly = true
	open, err := e.store.Approvals(ctx, f)
	if err != nil {
		return err
	}
	for _, a := range open {
		if err := e.decideByRule(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// answerByRule lets the rules decide what a run has asked, if they were not asked yet.
// Where they cannot be asked now, the next attempt to follow the run asks them.
func (e *Engine) answerByRule(ctx context.Context, r *run) error {
	if !r.asked.Swap(false) {
		return nil
	}
	if err := e.applyRules(ctx, ApprovalFilter{ExecutionID: r.id}); err != nil {
		r.asked.Store(true)
		return fmt.Errorf("hold what #%d asks against the rules: %w", r.number, err)
	}
	return nil
}

// rateAsks notes the risk of what is asked and tells whether something is. The caller
// holds the lock.
func (r *run) rateAsks() (open bool) {
	for i, a := range r.pending.Asks {
		open = open || a.State == agent.AskOpen
		if a.Kind == agent.KindApproval {
			r.pending.Asks[i].Risk = RiskOf(a.Ask, r.dir)
		}
	}
	return open
}

// decideByRule decides an open approval where there is a rule for it.
func (e *Engine) decideByRule(ctx context.Context, a Approval) error {
	for a.State == agent.AskOpen && a.Kind == agent.KindApproval {
		x, err := e.store.Execution(ctx, a.ExecutionID)
		if err != nil {
			return err
		}
		now := e.now().UTC()
		rules, err := e.store.Rules(ctx, RuleFilter{Subjects: subjectsOf(x), At: now})
		if err != nil {
			return err
		}
		r, found := decisive(rules, x, a, now)
		if !found {
			return nil
		}
		s := e.settlement(a, agent.Decision{Allow: r.Decision == Allow, Message: r.Message, By: "rule " + r.ID})
		s.UsedRule = r.ID
		s.Audit[0].Detail["rule"] = r.ID
		if a, err = e.store.Decide(ctx, s); err == nil {
			e.log.InfoContext(ctx, "a rule decided", "rule", r.ID, "decision", r.Decision, "approval", a.ID, "execution", x.ID)
			if live := e.run(x.ID); live != nil {
				live.orders.ring()
			}
			return nil
		}
		if CodeOf(err) != CodeConflict || a.ID == "" {
			return err
		} // somebody was faster, or the rule is gone: look again
	}
	return nil
}

// Rules returns the remembered decisions that are in force, oldest first.
func (e *Engine) Rules(ctx context.Context) ([]Rule, error) {
	return e.store.Rules(ctx, RuleFilter{At: e.now().UTC()})
}

// RemoveRule forgets a remembered decision. What it has decided stays decided.
func (e *Engine) RemoveRule(ctx context.Context, id, by string) (Rule, error) {
	return e.store.RemoveRule(ctx, id, Audit{At: e.now().UTC(), Actor: by, Action: "rule.remove", Object: id, Allowed: true})
}
