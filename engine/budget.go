package engine

import (
	"fmt"
	"strconv"
	"time"

	"github.com/threadmill/threadmill/engine/agent"
)

// Budget is what may be spent with an agent; 0: no limit.
type Budget struct {
	PerRunUSD     float64 `json:"perRunUsd,omitempty"`
	PerRunTokens  int64   `json:"perRunTokens,omitempty"`  // in and out
	PerUserDayUSD float64 `json:"perUserDayUsd,omitempty"` // by one user on a day, with all agents together
	PerDayUSD     float64 `json:"perDayUsd,omitempty"`     // by all users on a day, with this agent
}

// RunBudget is an execution's own budget, and the warning that its spending caused.
type RunBudget struct {
	SpentUSD    float64 `json:"spentUsd"`
	CapUSD      float64 `json:"capUsd,omitempty"`      // with ExtendedUSD; left out: no limit
	ExtendedUSD float64 `json:"extendedUsd,omitempty"` // what was added to it
	CapTokens   int64   `json:"capTokens,omitempty"`
	Warned      bool    `json:"warned,omitempty"`
	Warning     string  `json:"warning,omitempty"` // of this budget, or of one of the day
}

// BudgetScope says what a budget is for.
type BudgetScope string

// The scopes of budgets.
const (
	BudgetRun   BudgetScope = "run"   // one execution
	BudgetUser  BudgetScope = "user"  // a user's day
	BudgetAgent BudgetScope = "agent" // an agent's day
)

// warnAt is the part of a budget at which a warning is given.
const warnAt = 0.8

// BudgetLine is a budget and how much of it is spent.
type BudgetLine struct {
	Scope       BudgetScope `json:"scope"`
	ID          string      `json:"id"`                    // the execution's, the user's or the agent's
	AgentID     string      `json:"agentId,omitempty"`     // user: whose configuration names the cap
	CapUSD      float64     `json:"capUsd,omitempty"`      // with ExtendedUSD; left out: no limit
	ExtendedUSD float64     `json:"extendedUsd,omitempty"` // what was added to it
	SpentUSD    float64     `json:"spentUsd"`
	LeftUSD     *float64    `json:"leftUsd,omitempty"`
	CapTokens   int64       `json:"capTokens,omitempty"` // only of a run
	Tokens      int64       `json:"tokens"`
	Warned      bool        `json:"warned,omitempty"`

	day string // with its time zone, for people
}

// over reports whether nothing is left of it.
func (l BudgetLine) over() bool {
	return l.CapUSD > 0 && l.SpentUSD >= l.CapUSD || l.CapTokens > 0 && l.Tokens >= l.CapTokens
}

// near reports whether so much is spent that somebody should know.
func (l BudgetLine) near() bool {
	return l.CapUSD > 0 && l.SpentUSD >= warnAt*l.CapUSD || l.CapTokens > 0 && float64(l.Tokens) >= warnAt*float64(l.CapTokens)
}

// withLeft fills in what is left.
func (l BudgetLine) withLeft() BudgetLine {
	if l.CapUSD > 0 {
		left := max(0, l.CapUSD-l.SpentUSD)
		l.LeftUSD = &left
	}
	return l
}

// spent tells how much of it is spent, as part of a sentence.
func (l BudgetLine) spent() string {
	if l.CapUSD == 0 || l.CapTokens > 0 && float64(l.Tokens)/float64(l.CapTokens) > l.SpentUSD/l.CapUSD {
		return fmt.Sprintf("%d of %d tokens", l.Tokens, l.CapTokens)
	}
	return Dollars(l.SpentUSD) + " of " + Dollars(l.CapUSD)
}

// warning is the sentence for people who can still do something.
func (l BudgetLine) warning() string {
	switch l.Scope {
	case BudgetRun:
		return "this run has spent " + l.spent() + "; it is stopped when that is used up"
	case BudgetUser:
		return l.ID + " has spent " + l.spent() + " for " + l.day + "; with that used up, agent " + l.AgentID + " stops"
	case BudgetAgent:
	}
	return "agent " + l.ID + " has spent " + l.spent() + " for " + l.day + "; it stops when that is used up"
}

// refusal is the sentence for people whose run is stopped or not started.
func (l BudgetLine) refusal() string {
	switch l.Scope {
	case BudgetRun:
		return "its budget is used up: it has spent " + l.spent() + "; resume it to go on with a new budget"
	case BudgetUser:
		return fmt.Sprintf("the budget of %s for %s is used up: %s are spent; go on tomorrow, or have it extended with `threadmill budget extend user %s USD`",
			l.ID, l.day, l.spent(), l.ID)
	case BudgetAgent:
	}
	return fmt.Sprintf("the budget of agent %s for %s is used up: %s are spent; go on tomorrow, or have it extended with `threadmill budget extend agent %s USD`",
		l.ID, l.day, l.spent(), l.ID)
}

// Dollars writes an amount for people: cents, and more digits where it is less.
func Dollars(usd float64) string {
	if usd != 0 && usd < 0.1 {
		return "$" + strconv.FormatFloat(usd, 'f', 4, 64)
	}
	return "$" + strconv.FormatFloat(usd, 'f', 2, 64)
}

// BudgetDay is a calendar day of one user and one agent.
type BudgetDay struct {
	Day     string // 2026-11-21, in the time zone of the budgets
	Who     string
	AgentID string
}

// DayCaps is what may be spent on a day; 0: no limit.
type DayCaps struct {
	BudgetDay

	Zone     string // of the day, for people
	UserUSD  float64
	AgentUSD float64
}

// Any reports whether there is a limit at all.
func (c DayCaps) Any() bool { return c.UserUSD > 0 || c.AgentUSD > 0 }

// Check refuses with CodeConflict where a budget of the day is used up.
func (c DayCaps) Check(s DaySpent) error {
	for _, l := range c.lines(s) {
		if l.over() {
			return Errorf(CodeConflict, "%s", l.refusal())
		}
	}
	return nil
}

// lines are the budgets of the day that have a limit.
func (c DayCaps) lines(s DaySpent) []BudgetLine {
	var out []BudgetLine
	day := "today (" + c.Day + ", " + c.Zone + ")"
	if c.UserUSD > 0 {
		out = append(out, BudgetLine{
			Scope: BudgetUser, ID: c.Who, AgentID: c.AgentID, CapUSD: c.UserUSD + s.User.ExtendedUSD,
			ExtendedUSD: s.User.ExtendedUSD, SpentUSD: s.User.USD, Tokens: s.User.Tokens, day: day,
		})
	}
	if c.AgentUSD > 0 {
		out = append(out, BudgetLine{
			Scope: BudgetAgent, ID: c.AgentID, CapUSD: c.AgentUSD + s.Agent.ExtendedUSD,
			ExtendedUSD: s.Agent.ExtendedUSD, SpentUSD: s.Agent.USD, Tokens: s.Agent.Tokens, day: day,
		})
	}
	return out
}

// DaySpent is what a user and an agent have spent on a day.
type DaySpent struct {
	User, Agent Spent
}

// Spent is what somebody or something has spent on a day.
type Spent struct {
	ID          string
	USD         float64
	ExtendedUSD float64 // what was added to the budget of the day
	Tokens      int64
}

// Spending is everything that was spent on a day, the largest amounts first.
type Spending struct {
	Users, Agents []Spent
	Runs          []RunSpent
	Warnings      []BudgetWarning // that were given about the day
}

// RunSpent is what an execution has spent on a day.
type RunSpent struct {
	ExecutionID string  `json:"executionId"`
	Number      int64   `json:"number,omitempty"` // left out once the execution is forgotten
	AgentID     string  `json:"agentId"`
	RequestedBy string  `json:"requestedBy"`
	SpentUSD    float64 `json:"spentUsd"`
	Tokens      int64   `json:"tokens"`
}

// DayUsage is what an execution had spent since its start when a day ended, or by now.
type DayUsage struct {
	Day   string
	Total agent.Usage
}

// BudgetWarning is a warning about a budget; it is given once.
type BudgetWarning struct {
	Scope       BudgetScope
	ID          string
	AgentID     string // user: whose configuration names the cap
	Day         string // empty for a run
	ExecutionID string // the one that spent it
	Text        string
	At          time.Time
}

// Extension adds to a budget: to a run's, or to that of a day.
type Extension struct {
	Scope BudgetScope
	ID    string
	Day   string // empty for a run
	USD   float64
	Key   string // seen before: nothing is added again; may be empty
	By    string
	At    time.Time
}
