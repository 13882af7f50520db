package adaptertest

import (
	"strings"
	"testing"
	"time"

	"github.com/threadmill/threadmill/engine/agent"
)

func text(id, content string, more bool) agent.Entry {
	return agent.Entry{Kind: agent.KindAssistant, ID: id, Content: content, Append: more}
}

func tool(id string, status agent.ToolStatus) agent.Entry {
	return agent.Entry{
		Kind: agent.KindToolUse, ID: id,
		Tool: &agent.Tool{Name: "x", Action: agent.ActionTool, Status: status},
	}
}

func ask(id string, state agent.AskState) agent.Entry {
	return agent.Entry{Kind: agent.KindApproval, ID: id, Ask: &agent.Ask{State: state, Tool: "x"}}
}

func status(a agent.Activity) agent.Entry {
	return agent.Entry{Kind: agent.KindStatus, Status: &agent.Status{Activity: a}}
}

func usage(tokens int64) agent.Entry {
	return agent.Entry{Kind: agent.KindUsage, Usage: &agent.Usage{OutputTokens: tokens}}
}

// TestRules shows that the suite sees what it is for: each sequence breaks one rule,
// with its last entry or by ending there.
func TestRules(t *testing.T) {
	t.Parallel()
	exit := 0
	early := tool("t", agent.ToolRunning)
	early.Tool.ExitCode = &exit
	odd := tool("t", agent.ToolSuccess)
	odd.Tool.Action = "dance"
	for want, entries := range map[string][]agent.Entry{
		"runner's to give":       {{Kind: agent.KindSystem, Content: "x", Seq: 1}},
		"time are the runner's":  {{Kind: agent.KindSystem, Content: "x", Time: time.Unix(1, 0)}},
		"valid UTF-8":            {text("a", "\xff", false)},
		"unknown":                {{Kind: "song"}},
		"recorded by the runner": {{Kind: agent.KindUser, Content: "x"}},
		"belongs to a tool_use":  {{Kind: agent.KindToolUse, ID: "t"}},
		"failure belongs":        {{Kind: agent.KindSystem, Content: "x", Failure: &agent.Failure{}}},
		"text with an id":        {text("", "x", true)},
		"not continued":          {text("a", "x", false), text("a", "y", true)},
		"make up the whole":      {text("a", "x", true), text("a", "y", true), text("a", "xz", false)},
		"call has an id":         {tool("", agent.ToolSuccess)},
		"comes with the end":     {early},
		"action is known":        {odd},
		"does not go back":       {tool("t", agent.ToolRunning), tool("t", agent.ToolCreated)},
		"ends once":              {tool("t", agent.ToolFailed), tool("t", agent.ToolFailed)},
		"is left running":        {tool("t", agent.ToolRunning)},
		"begins open":            {ask("a", agent.AskWithdrawn)},
		"settled once":           {ask("a", agent.AskOpen), ask("a", agent.AskWithdrawn), ask("a", agent.AskDecided)},
		"names the tool":         {{Kind: agent.KindApproval, ID: "a", Ask: &agent.Ask{State: agent.AskOpen}}},
		"asks something":         {{Kind: agent.KindQuestion, ID: "a", Ask: &agent.Ask{State: agent.AskOpen}}},
		"does not shrink":        {usage(5), usage(4)},
		"take turns":             {status(agent.Working), status(agent.Working)},
		"to derive":              {status(agent.Asking)},
		"status says something":  {status("")},
		"what went wrong":        {{Kind: agent.KindError}},
	} {
		if got := broken(entries); !strings.Contains(got, want) {
			t.Errorf("%+v breaks %q, want %q", entries, got, want)
		}
	}
	good := []agent.Entry{
		status(agent.Working), text("a", "x", true), text("a", "y", true), text("a", "xy", false), text("a", "new", false),
		tool("t", agent.ToolCreated), ask("q", agent.AskOpen), ask("q", agent.AskWithdrawn), tool("t", agent.ToolRunning),
		tool("t", agent.ToolSuccess), usage(1), usage(1), status(agent.Idle), status(agent.Working),
	}
	if got := broken(good); got != "" {
		t.Errorf("good entries break %q", got)
	}
}

func broken(entries []agent.Entry) string {
	r := newRules()
	var said []string
	for _, e := range entries {
		if err := r.check(e); err != nil {
			said = append(said, err.Error())
		}
	}
	for _, err := range r.atEnd() {
		said = append(said, err.Error())
	}
	return strings.Join(said, "; ")
}
