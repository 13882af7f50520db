package demo

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/threadmill/threadmill/engine/agent"
)

// maxLine bounds a line of the protocol in both directions; what is longer is cut and
// then fails to parse, which costs that line and nothing else.
const maxLine = 16 << 20

// op is what a request asks the agent to do.
type op string

const (
	opMessage   op = "message"
	opInterrupt op = "interrupt"
	opDecide    op = "decide"
)

// request is a line to the agent.
type request struct {
	Req     int64             `json:"req"` // echoed in the reply
	Op      op                `json:"op"`
	ID      string            `json:"id,omitempty"`      // message: its id; decide: that of the ask
	Text    string            `json:"text,omitempty"`    // message: what is said; decide: why not
	Files   []string          `json:"files,omitempty"`   // message: attachments
	Allow   bool              `json:"allow,omitempty"`   // decide
	Stop    bool              `json:"stop,omitempty"`    // decide: end the turn as well
	Expired bool              `json:"expired,omitempty"` // decide: nobody did
	Input   json.RawMessage   `json:"input,omitempty"`   // decide: run this instead
	Answers map[string]string `json:"answers,omitempty"` // decide: by the question's text
}

// eventType is what an event tells.
type eventType string

const (
	evHello    eventType = "hello"    // the session's id
	evTurn     eventType = "turn"     // State: started, done or interrupted
	evReply    eventType = "reply"    // to the request Req; Text is why it was refused
	evText     eventType = "text"     // what the agent says
	evThought  eventType = "thought"  // what it thinks
	evTool     eventType = "tool"     // a tool call, in each of its states
	evAsk      eventType = "ask"      // permission for Tool, or Questions
	evWithdraw eventType = "withdraw" // the ask ID needs no answer any more
	evUsage    eventType = "usage"    // totals of this run
	evError    eventType = "error"    // the run ends with it
)

// The states of a turn.
const (
	turnStarted     = "started"
	turnDone        = "done"
	turnInterrupted = "interrupted"
)

// event is a line from the agent.
type event struct {
	Type      eventType        `json:"type"`
	Req       int64            `json:"req,omitempty"`
	ID        string           `json:"id,omitempty"`
	Session   string           `json:"session,omitempty"`
	State     string           `json:"state,omitempty"`
	Message   string           `json:"message,omitempty"` // turn: the id of the message that began it
	Text      string           `json:"text,omitempty"`
	More      bool             `json:"more,omitempty"` // text: continues what has that id
	Tool      *agent.Tool      `json:"tool,omitempty"`
	Questions []agent.Question `json:"questions,omitempty"`
	Usage     *agent.Usage     `json:"usage,omitempty"`
	Reason    agent.Reason     `json:"reason,omitempty"`
	ResetsAt  *time.Time       `json:"resetsAt,omitempty"`
}

func parseRequest(line []byte) (request, error) {
	var r request
	if err := json.Unmarshal(line, &r); err != nil {
		return r, fmt.Errorf("read a request: %w", err)
	}
	return r, nil
}

// parseEvent reads a line of the agent. It refuses what would make an entry that means
// nothing; it lets fields pass that it does not know.
func parseEvent(line []byte) (event, error) {
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		return e, fmt.Errorf("read an event: %w", err)
	}
	if missing := e.missing(); missing != "" {
		return e, fmt.Errorf("read an event: %q has no %s", e.Type, missing)
	}
	return e, nil
}

// missing names what the event lacks.
func (e event) missing() string {
	switch e.Type {
	case evText, evThought, evWithdraw:
		return lack(e.ID != "", "id")
	case evTool:
		return lack(e.ID != "" && e.Tool != nil && e.Tool.Name != "" && known(e.Tool), "complete tool")
	case evAsk:
		return lack(e.ID != "" && (e.Tool != nil && e.Tool.Name != "") != (len(e.Questions) > 0), "id with a tool or questions")
	case evUsage:
		return lack(e.Usage != nil, "usage")
	case evTurn:
		return lack(e.State == turnStarted || e.State == turnDone || e.State == turnInterrupted, "known state")
	case evError:
		return lack(e.Reason != "", "reason")
	case evHello:
		return lack(e.Session != "", "session")
	case evReply:
		return lack(e.Req > 0, "request")
	}
	return "known type"
}

func lack(has bool, what string) string {
	if has {
		return ""
	}
	return what
}

func known(t *agent.Tool) bool {
	switch t.Action {
	case agent.ActionFileRead, agent.ActionFileWrite, agent.ActionFileEdit, agent.ActionCommandRun, agent.ActionSearch, agent.ActionTool:
	default:
		return false
	}
	switch t.Status {
	case agent.ToolCreated, agent.ToolRunning, agent.ToolSuccess, agent.ToolFailed:
		return true
	}
	return false
}
