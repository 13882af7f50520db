package adaptertest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/threadmill/threadmill/engine/agent"
)

// rules holds entries against what the contract says of them, one by one, as they come.
type rules struct {
	activity agent.Activity
	tools    map[string]agent.ToolStatus
	asks     map[string]agent.AskState
	parts    map[string]*bytes.Buffer // streamed texts, by kind and id
	whole    map[string]bool          // texts that are complete
	usage    agent.Usage
}

func newRules() rules {
	return rules{
		tools: map[string]agent.ToolStatus{}, asks: map[string]agent.AskState{},
		parts: map[string]*bytes.Buffer{}, whole: map[string]bool{},
	}
}

// check tells what is wrong with an entry.
func (r *rules) check(e agent.Entry) error {
	err := errors.Join(form(e), r.kind(e))
	if err != nil {
		return fmt.Errorf("%s: %w", clip(show(e), 300), err)
	}
	return nil
}

// form checks what holds for every entry.
func form(e agent.Entry) error {
	var errs []error
	want := func(ok bool, rule string) {
		if !ok {
			errs = append(errs, errors.New(rule))
		}
	}
	want(e.Seq == 0 && e.Time.IsZero(), "seq and time are the runner's to give")
	want(utf8.ValidString(e.Content), "content is valid UTF-8")
	want((e.Tool != nil) == (e.Kind == agent.KindToolUse), "a tool belongs to a tool_use, and the other way round")
	want((e.Ask != nil) == (e.Kind == agent.KindApproval || e.Kind == agent.KindQuestion), "an ask belongs to an approval or a question")
	want((e.Usage != nil) == (e.Kind == agent.KindUsage), "usage belongs to its kind")
	want((e.Status != nil) == (e.Kind == agent.KindStatus), "status belongs to its kind")
	want(e.Failure == nil || e.Kind == agent.KindError, "a failure belongs to an error")
	want(!e.Append || e.ID != "" && streams(e.Kind), "only a text with an id is streamed")
	_, err := json.Marshal(e)
	return errors.Join(append(errs, err)...)
}

func streams(k agent.Kind) bool { return k == agent.KindAssistant || k == agent.KindThinking }

func (r *rules) kind(e agent.Entry) error {
	switch e.Kind {
	case agent.KindAssistant, agent.KindThinking:
		return r.text(e)
	case agent.KindToolUse:
		return r.tool(e)
	case agent.KindApproval, agent.KindQuestion:
		return r.ask(e)
	case agent.KindUsage:
		return r.spent(e.Usage)
	case agent.KindStatus:
		return r.status(e.Status)
	case agent.KindError:
		return need(e.Content != "", "an error says what went wrong")
	case agent.KindSystem:
		return need(e.Content != "", "a note says something")
	case agent.KindUser:
		return errors.New("what people say is recorded by the runner")
	}
	return fmt.Errorf("kind %q is unknown", e.Kind)
}

func need(ok bool, rule string) error {
	if ok {
		return nil
	}
	return errors.New(rule)
}

func (r *rules) text(e agent.Entry) error {
	if e.ID == "" {
		return need(e.Content != "", "a text says something")
	}
	key := string(e.Kind) + " " + e.ID
	if r.whole[key] && e.Append {
		return errors.New("a complete text is not continued")
	}
	part := r.parts[key]
	if part == nil {
		part = &bytes.Buffer{}
		r.parts[key] = part
	}
	if e.Append {
		part.WriteString(e.Content)
		return nil
	}
	first := !r.whole[key]
	r.whole[key] = true
	return need(!first || part.Len() == 0 || part.String() == e.Content, "the parts of a text make up the whole")
}

func (r *rules) tool(e agent.Entry) error {
	if e.Tool == nil {
		return nil // form has said it
	}
	var errs []error
	errs = append(errs,
		need(e.ID != "", "a tool call has an id"), need(e.Tool.Name != "", "a tool has a name"),
		need(order(e.Tool.Status) > 0, "a tool call's status is known"),
		need(e.Tool.Input == nil || json.Valid(e.Tool.Input), "a tool's input is JSON"),
		need(e.Tool.ExitCode == nil || order(e.Tool.Status) == final, "an exit code comes with the end"),
		need(action(e.Tool.Action), "a tool's action is known"),
		need(order(r.tools[e.ID]) <= order(e.Tool.Status), "a tool call does not go back"),
		need(order(r.tools[e.ID]) < final, "a tool call ends once"),
	)
	r.tools[e.ID] = e.Tool.Status
	return errors.Join(errs...)
}

// final is the order of the states that end a tool call.
const final = 3

func order(s agent.ToolStatus) int {
	switch s {
	case agent.ToolCreated:
		return 1
	case agent.ToolRunning:
		return 2
	case agent.ToolSuccess, agent.ToolFailed:
		return final
	}
	return 0
}

func action(a agent.Action) bool {
	switch a {
	case agent.ActionFileRead, agent.ActionFileWrite, agent.ActionFileEdit, agent.ActionCommandRun, agent.ActionSearch, agent.ActionTool:
		return true
	}
	return false
}

func (r *rules) ask(e agent.Entry) error {
	if e.Ask == nil {
		return nil // form has said it
	}
	before, known := r.asks[e.ID]
	r.asks[e.ID] = e.Ask.State
	errs := []error{
		need(e.ID != "", "an ask has an id"),
		need(known || e.Ask.State == agent.AskOpen, "an ask begins open"),
		need(!known || before == agent.AskOpen, "an ask is settled once"),
		need(e.Ask.Input == nil || json.Valid(e.Ask.Input), "an ask's input is JSON"),
		need(e.Ask.Deadline == nil, "the deadline is the runner's to set"),
	}
	if e.Kind == agent.KindApproval {
		errs = append(errs, need(e.Ask.Tool != "", "an approval names the tool"))
	} else {
		errs = append(errs, need(len(e.Ask.Questions) > 0, "a question asks something"))
	}
	for _, q := range e.Ask.Questions {
		errs = append(errs, need(q.Text != "", "a question has a text"))
	}
	return errors.Join(errs...)
}

func (r *rules) spent(u *agent.Usage) error {
	if u == nil {
		return nil // form has said it
	}
	before := r.usage
	r.usage = *u
	return need(u.InputTokens >= before.InputTokens && u.OutputTokens >= before.OutputTokens && u.CostUSD >= before.CostUSD,
		"usage is a total and does not shrink")
}

func (r *rules) status(s *agent.Status) error {
	if s == nil {
		return nil // form has said it
	}
	before := r.activity
	switch s.Activity {
	case "":
		return need(s.SessionRef != "" || s.Pid != 0, "a status says something")
	case agent.Working, agent.Idle:
		r.activity = s.Activity
		return need(before != s.Activity, "working and idle take turns")
	case agent.Approval, agent.Asking:
	}
	return fmt.Errorf("activity %q is the runner's to derive", s.Activity)
}

// atEnd tells what was left undone.
func (r *rules) atEnd() []error {
	var errs []error
	for id, s := range r.tools {
		if order(s) < final {
			errs = append(errs, fmt.Errorf("tool call %s is left %s", id, s))
		}
	}
	return errs
}
