package demo

import (
	"strings"

	"github.com/threadmill/threadmill/engine/agent"
)

// teller turns events into entries. It keeps what is needed so that the entries are in
// order even if the events are not: which tools run, and whether a turn does.
type teller struct {
	working bool
	tools   map[string]agent.Tool  // those that have not ended
	asks    map[string]agent.Entry // those that were asked in this turn
}

func newTeller() teller {
	return teller{tools: map[string]agent.Tool{}, asks: map[string]agent.Entry{}}
}

// started is the first thing to tell.
func (t *teller) started(pid int, working bool) []agent.Entry {
	t.working = working
	activity := agent.Idle
	if working {
		activity = agent.Working
	}
	return []agent.Entry{{Kind: agent.KindStatus, Status: &agent.Status{Activity: activity, Pid: pid}}}
}

// entries tells an event.
func (t *teller) entries(e event) []agent.Entry {
	switch e.Type {
	case evHello:
		return []agent.Entry{{Kind: agent.KindStatus, Status: &agent.Status{SessionRef: e.Session}}}
	case evTurn:
		return t.turn(e)
	case evText:
		return []agent.Entry{{Kind: agent.KindAssistant, ID: e.ID, Content: e.Text, Append: e.More}}
	case evThought:
		return []agent.Entry{{Kind: agent.KindThinking, ID: e.ID, Content: e.Text}}
	case evTool:
		return t.tool(e)
	case evAsk:
		return t.ask(e)
	case evWithdraw:
		return t.withdraw(e)
	case evUsage:
		return []agent.Entry{{Kind: agent.KindUsage, Usage: e.Usage}}
	case evError:
		failure := &agent.Failure{Reason: e.Reason, ResetsAt: e.ResetsAt}
		return []agent.Entry{{Kind: agent.KindError, Content: e.Text, Failure: failure}}
	case evReply: // the session's
	}
	return nil
}

func (t *teller) turn(e event) []agent.Entry {
	working := e.State == turnStarted
	if working == t.working {
		return nil
	}
	t.working = working
	if working {
		return []agent.Entry{activity(agent.Working)}
	}
	told := t.endTools("the turn has ended")
	clear(t.asks) // those that were not withdrawn were answered
	if e.State == turnInterrupted {
		told = append(told, agent.Entry{Kind: agent.KindSystem, Content: "The turn was interrupted."})
	}
	return append(told, activity(agent.Idle))
}

func activity(a agent.Activity) agent.Entry {
	return agent.Entry{Kind: agent.KindStatus, Status: &agent.Status{Activity: a}}
}

func (t *teller) tool(e event) []agent.Entry {
	t.tools[e.ID] = *e.Tool
	if e.Tool.Status == agent.ToolSuccess || e.Tool.Status == agent.ToolFailed {
		delete(t.tools, e.ID)
	}
	return []agent.Entry{{Kind: agent.KindToolUse, ID: e.ID, Tool: e.Tool}}
}

// ended is the last thing to tell: nothing runs any more.
func (t *teller) ended() []agent.Entry { return t.endTools("the agent has ended") }

func (t *teller) endTools(why string) []agent.Entry {
	var told []agent.Entry
	for id, tool := range t.tools {
		tool.Status = agent.ToolFailed
		tool.Result = strings.TrimSpace(tool.Result + "\n" + why)
		told = append(told, agent.Entry{Kind: agent.KindToolUse, ID: id, Tool: &tool})
		delete(t.tools, id)
	}
	return told
}

func (t *teller) ask(e event) []agent.Entry {
	told := askOf(e)
	t.asks[e.ID] = told
	return []agent.Entry{told}
}

// withdraw tells that an ask needs no answer any more.
func (t *teller) withdraw(e event) []agent.Entry {
	told, ok := t.asks[e.ID]
	if !ok {
		return nil
	}
	delete(t.asks, e.ID)
	was := *told.Ask
	was.State = agent.AskWithdrawn
	told.Ask = &was
	return []agent.Entry{told}
}

// askOf is what the agent waits for: a permission where it names a tool.
func askOf(e event) agent.Entry {
	if e.Tool == nil {
		return agent.Entry{
			Kind: agent.KindQuestion, ID: e.ID, Content: e.Questions[0].Text,
			Ask: &agent.Ask{State: agent.AskOpen, Questions: e.Questions},
		}
	}
	return agent.Entry{
		Kind: agent.KindApproval, ID: e.ID, Content: e.Tool.Command,
		Ask: &agent.Ask{State: agent.AskOpen, Tool: e.Tool.Name, Action: e.Tool.Action, Input: e.Tool.Input},
	}
}
