package claude

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/threadmill/threadmill/engine/agent"
)

// canUseTool is the one request of the CLI that is known here.
const canUseTool = "can_use_tool"

// maxAskInput is how long arguments may be so that whoever decides sees all of them.
const maxAskInput = 1 << 20

// The verdicts.
const (
	allow = "allow"
	deny  = "deny"
)

// The tools that are conversations with people.
const (
	toolQuestion = "AskUserQuestion"
	toolPlan     = "ExitPlanMode"
)

// asks are what the CLI waits for, by the id of its request.
type asks map[string]*ask

type ask struct {
	entry   agent.Entry
	input   json.RawMessage // as received
	toolUse string
}

// question is how the CLI puts one.
type question struct {
	Text    string `json:"question"`
	Header  string `json:"header"`
	Multi   bool   `json:"multiSelect"`
	Options []struct {
		Label       string `json:"label"`
		Description string `json:"description"`
	} `json:"options"`
}

// opened takes a request for permission.
func (a asks) opened(e *evAsk) []agent.Entry {
	r := e.Request
	if r.Subtype != canUseTool || e.RequestID == "" || r.Tool == "" || a[e.RequestID] != nil {
		return nil
	}
	x := &ask{input: r.Input, toolUse: r.ToolUseID}
	x.entry = agent.Entry{
		Kind: agent.KindApproval, ID: e.RequestID, Content: subject(r.Input, r.Text), Meta: askMeta(e),
		Ask: &agent.Ask{State: agent.AskOpen, Tool: r.Tool, Action: actionOf(r.Tool), Input: r.Input},
	}
	if len(r.Input) > maxAskInput {
		x.entry.Ask.Input, x.entry.Ask.Shortened = shorten(r.Input), true
	}
	switch r.Tool {
	case toolQuestion:
		x.asQuestion()
	case toolPlan:
		x.asPlan()
	}
	a[e.RequestID] = x
	return []agent.Entry{x.entry}
}

// subject is what an approval is about, in a line: the command or file, or else what the
// agent says of it.
func subject(input json.RawMessage, description string) string {
	var args arguments
	_ = json.Unmarshal(input, &args) // other shapes have nothing to show by itself
	return cmp.Or(args.Command, args.File, args.Notebook, description)
}

func askMeta(e *evAsk) map[string]any {
	meta := map[string]any{}
	for key, value := range map[string]string{
		"toolUseId": e.Request.ToolUseID, "blockedPath": e.Request.Blocked,
		"reason": e.Request.Why, "subAgent": e.Request.AgentID,
	} {
		if value != "" {
			meta[key] = value
		}
	}
	return meta
}

// asQuestion makes a question of it, where it asks any.
func (x *ask) asQuestion() {
	var in struct {
		Questions []question `json:"questions"`
	}
	if json.Unmarshal(x.input, &in) != nil {
		return
	}
	var list []agent.Question
	for _, q := range in.Questions {
		if q.Text == "" {
			continue
		}
		one := agent.Question{Text: q.Text, Header: q.Header, Multiple: q.Multi, FreeText: true}
		for _, o := range q.Options {
			one.Choices = append(one.Choices, agent.Choice{Label: o.Label, Description: o.Description})
		}
		list = append(list, one)
	}
	if len(list) > 0 {
		x.entry.Kind, x.entry.Content = agent.KindQuestion, list[0].Text
		x.entry.Ask = &agent.Ask{State: agent.AskOpen, Questions: list}
	}
}

// asPlan shows the plan that is to be approved.
func (x *ask) asPlan() {
	var in struct {
		Plan string `json:"plan"`
	}
	if json.Unmarshal(x.input, &in) == nil && in.Plan != "" {
		x.entry.Content = in.Plan
	}
}

// withdrawn closes an ask that is no longer waited for.
func (a asks) withdrawn(id string) []agent.Entry {
	x := a[id]
	if x == nil {
		return nil
	}
	delete(a, id)
	e := x.entry
	was := *e.Ask
	was.State = agent.AskWithdrawn
	e.Ask = &was
	return []agent.Entry{e}
}

// overtaken closes the ask of a tool call that has ended without an answer.
func (a asks) overtaken(toolUse string) []agent.Entry {
	for id, x := range a {
		if x.toolUse == toolUse && toolUse != "" {
			return a.withdrawn(id)
		}
	}
	return nil
}

var errNotAsked = errors.New("the agent does not ask this, or no longer")

// answer is the CLI's form of a decision.
func (x *ask) answer(d agent.Decision) (*verdict, error) {
	if x.entry.Kind == agent.KindQuestion {
		return x.answers(d)
	}
	if !d.Allow {
		return denial(d), nil
	}
	input := x.input
	if len(d.ModifiedInput) > 0 {
		if x.entry.Ask.Shortened {
			return nil, errors.New("its arguments are too long to be shown whole, so they cannot be changed; deny it and say what to do instead")
		}
		if !isObject(d.ModifiedInput) {
			return nil, errors.New("the changed arguments are no JSON object")
		}
		input = d.ModifiedInput
	}
	return &verdict{Behavior: allow, Input: input}, nil
}

// answers puts the answers beside the questions, which have to be repeated.
func (x *ask) answers(d agent.Decision) (*verdict, error) {
	if len(d.Answers) == 0 || d.TimedOut {
		return denial(d), nil
	}
	var in map[string]json.RawMessage
	if err := json.Unmarshal(x.input, &in); err != nil {
		return nil, fmt.Errorf("repeat the questions: %w", err)
	}
	answers, err := json.Marshal(d.Answers)
	if err != nil {
		return nil, fmt.Errorf("write the answers: %w", err)
	}
	in["answers"] = answers
	input, err := json.Marshal(in)
	if err != nil {
		return nil, fmt.Errorf("write the answers: %w", err)
	}
	return &verdict{Behavior: allow, Input: input}, nil
}

// denial always says something: without a reason the CLI calls the answer malformed.
func denial(d agent.Decision) *verdict {
	message := d.Message
	switch {
	case message != "":
	case d.TimedOut:
		message = "Nobody answered in time."
	default:
		message = "The user does not want this."
	}
	return &verdict{Behavior: deny, Message: message, Interrupt: d.Interrupt}
}

func isObject(b []byte) bool {
	return json.Valid(b) && bytes.HasPrefix(bytes.TrimSpace(b), []byte("{"))
}
