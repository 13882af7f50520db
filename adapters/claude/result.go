package claude

import (
	"fmt"
	"strings"
	"time"

	"github.com/threadmill/threadmill/engine/agent"
)

const (
	// authTries is how many refusals of the credentials are believed to be a passing
	// trouble. The CLI itself would try for three minutes.
	authTries = 3
	// longRetry is a delay that is no trouble of the moment but a limit.
	longRetry = 5 * time.Minute

	adviceSignIn = "run `claude /login` as the user that runs Threadmill, or set ANTHROPIC_API_KEY for the service and name it in the agent's env_allowlist"
	adviceRoot   = "Claude Code refuses bypassPermissions to root: run Threadmill as another user, or take another permission_mode; only where everything that it can reach may be lost, set IS_SANDBOX=1 for the service and name it in the agent's env_allowlist"
)

// failure is how a turn failed, or the session.
type failure struct {
	agent.Failure

	text  string
	final bool // nothing will work until somebody, or time, has done something
}

func (f *failure) entry() agent.Entry {
	details := f.Failure
	return agent.Entry{Kind: agent.KindError, Content: f.text, Failure: &details}
}

func failed(reason agent.Reason, final bool, text string) *failure {
	return &failure{Failure: agent.Failure{Reason: reason}, final: final, text: text}
}

// failureOf says what a bad result means. The subtype says "success" for errors of the
// API, so it is asked last.
func (t *teller) failureOf(e *evResult) *failure {
	text := e.text()
	switch {
	case e.Status == 401 || e.Status == 403 || t.apiError == "authentication_failed":
		return failed(agent.ReasonAuth, true, "Claude Code is not signed in ("+text+"): "+adviceSignIn)
	case e.Status == 429 || t.apiError == "rate_limit":
		return t.limited(text)
	case e.Subtype == "error_max_turns":
		return failed(agent.ReasonAgentError, false, text+". It is the agent's option max_turns; a message lets it go on.")
	case e.Subtype == "error_max_budget_usd":
		return failed(agent.ReasonBudget, true, text)
	}
	if f := startFailure(text); f != nil {
		return f
	}
	return failed(agent.ReasonAgentError, e.Turns == 0 && e.Startup != "", text)
}

// text is what the CLI says about the result, without its notes to itself.
func (e *evResult) text() string {
	if e.Result != "" {
		return e.Result
	}
	var said []string
	for _, line := range e.Errors {
		if !strings.HasPrefix(line, "[ede_diagnostic]") {
			said = append(said, line)
		}
	}
	if len(said) == 0 {
		return "Claude Code ended the turn with an error (" + e.Subtype + ") and does not say why"
	}
	return strings.Join(said, "; ")
}

// startFailure knows why the CLI did not start, by what it says on its output or its
// error output; nil: something else is the matter.
func startFailure(text string) *failure {
	switch {
	case strings.Contains(text, "No conversation found"), strings.Contains(text, "--resume requires a valid session"):
		return failed(agent.ReasonNotFound, true, text+". It may have been deleted, or belong to another user or directory; start a new conversation.")
	case strings.Contains(text, "cannot be used with root"):
		return failed(agent.ReasonAgentError, true, adviceRoot)
	case strings.Contains(text, "Not logged in"):
		return failed(agent.ReasonAuth, true, "Claude Code is not signed in: "+adviceSignIn)
	}
	return nil
}

func (t *teller) limited(text string) *failure {
	f := failed(agent.ReasonAgentLimit, true, "Claude's usage limit is reached: "+text)
	if t.limit != nil {
		f.ResetsAt = t.limit
		f.text += fmt.Sprintf(" (%s)", t.limit.Format("2006-01-02 15:04 MST"))
	}
	return f
}

// retry takes that a request failed and will be made again. What trying again will not
// mend ends the session, which then says what would.
func (t *teller) retry(e *evRetry) []agent.Entry {
	delay := time.Duration(e.DelayMS * float64(time.Millisecond))
	switch {
	case e.Status == 401 && e.Attempt >= authTries:
		t.failed = failed(agent.ReasonAuth, true, "Claude Code is not signed in (the API refuses its credentials): "+adviceSignIn)
	case e.Status == 429 && delay >= longRetry:
		at := t.now().Add(delay).UTC().Truncate(time.Second)
		t.limit = &at
		t.failed = t.limited("the API asks to wait")
	default:
		why := "did not answer"
		if e.Status > 0 {
			why = fmt.Sprintf("answered %.0f (%s)", e.Status, e.Error)
		}
		return []agent.Entry{{
			Kind: agent.KindSystem, ID: "retry",
			Content: fmt.Sprintf("The API %s; attempt %.0f of %.0f follows in %s.", why, e.Attempt+1, e.Max+1, delay.Round(100*time.Millisecond)),
		}}
	}
	return []agent.Entry{t.failed.entry()}
}

// rateLimit takes how far a plan's limit is used up.
func (t *teller) rateLimit(e *evRateLimit) []agent.Entry {
	name := strings.ReplaceAll(e.Info.Type, "_", "-")
	var resets string
	if e.Info.ResetsAt > 0 {
		at := time.Unix(int64(e.Info.ResetsAt), 0).UTC()
		resets = "; it resets at " + at.Format("2006-01-02 15:04 MST")
		if e.Info.Status == "rejected" && !e.Info.Overage {
			t.limit = &at
		}
	}
	if e.Info.Status != "allowed_warning" {
		return nil
	}
	text := fmt.Sprintf("%.0f %% of the %s limit is used%s.", e.Info.Utilization*100, name, resets)
	return []agent.Entry{{Kind: agent.KindSystem, ID: "limit/" + name, Content: text}}
}

// bill adds up what this process has spent. The CLI's totals go on over resumes in
// newer versions, and start anew after /clear.
type bill struct {
	sum   agent.Usage
	total agent.Usage // by the CLI's own account, where it gives no differences
}

// add takes a result's account and returns the sum, where it has changed.
func (b *bill) add(e *evResult) *agent.Usage {
	before := b.sum
	if e.Since != nil {
		b.sum = plus(b.sum, usageOf(e.Since))
	} else if total := usageOf(e.Totals); e.Totals != nil {
		if total.InputTokens < b.total.InputTokens || total.CostUSD < b.total.CostUSD {
			b.total = agent.Usage{} // it was reset
		}
		b.sum = plus(b.sum, minus(total, b.total))
		b.total = total
	}
	if b.sum == before {
		return nil
	}
	sum := b.sum
	return &sum
}

// usageOf adds up the models. What was read from or written to the cache is input too.
func usageOf(models map[string]spent) (u agent.Usage) {
	for _, m := range models {
		u.InputTokens += int64(m.Input + m.CacheRead + m.CacheWrite)
		u.OutputTokens += int64(m.Output)
		u.CostUSD += m.Cost
	}
	return u
}

func plus(a, b agent.Usage) agent.Usage {
	return agent.Usage{
		InputTokens: a.InputTokens + max(0, b.InputTokens), OutputTokens: a.OutputTokens + max(0, b.OutputTokens),
		CostUSD: a.CostUSD + max(0, b.CostUSD),
	}
}

func minus(a, b agent.Usage) agent.Usage {
	return agent.Usage{
		InputTokens: a.InputTokens - b.InputTokens, OutputTokens: a.OutputTokens - b.OutputTokens, CostUSD: a.CostUSD - b.CostUSD,
	}
}
