// Package agent is the contract between the runner, which owns one execution,
// and the adapters, which each drive one kind of agent. It holds types and small
// interfaces only and imports nothing else of this project, so an adapter can be
// written, read and tested without knowing queues, databases or chat.
package agent

import (
	"encoding/json"
	"time"
)

// Kind says what an [Entry] is.
type Kind string

// The kinds of entries.
const (
	KindSystem    Kind = "system"    // something the agent or the runner says about itself
	KindUser      Kind = "user"      // a message that was handed to the agent
	KindAssistant Kind = "assistant" // what the agent answers
	KindThinking  Kind = "thinking"  // reasoning that the agent shows
	KindToolUse   Kind = "tool_use"  // a tool call, see [Entry.Tool]
	KindError     Kind = "error"     // something that went wrong, see [Entry.Failure]
	KindApproval  Kind = "approval"  // the agent waits for permission, see [Entry.Ask]
	KindQuestion  Kind = "question"  // the agent waits for an answer, see [Entry.Ask]
	KindUsage     Kind = "usage"     // what the run has spent so far, see [Entry.Usage]
	KindStatus    Kind = "status"    // a change of activity, session or process, see [Entry.Status]
)

// Entry is one normalised piece of what an agent did. Entries of a run form one
// append-only sequence; an adapter leaves Seq and Time to the runner.
type Entry struct {
	Seq  int64     `json:"seq"` // gapless from 1 within an execution
	Time time.Time `json:"time"`
	Kind Kind      `json:"kind"`

	// ID names the thing the entry is about (a message, a tool call, an approval).
	// A later entry of the same kind and ID takes the place of the earlier one, or
	// continues its Content where Append is set. Empty: the entry stands alone.
	ID     string `json:"id,omitempty"`
	Append bool   `json:"append,omitempty"`

	Content string         `json:"content,omitempty"` // CommonMark
	Tool    *Tool          `json:"tool,omitempty"`    // only KindToolUse
	Ask     *Ask           `json:"ask,omitempty"`     // only KindApproval and KindQuestion
	Usage   *Usage         `json:"usage,omitempty"`   // only KindUsage
	Status  *Status        `json:"status,omitempty"`  // only KindStatus
	Failure *Failure       `json:"failure,omitempty"` // only KindError
	Meta    map[string]any `json:"meta,omitempty"`    // what the agent adds: model, session id, …
}

// Action says what a tool does, whatever the agent calls it.
type Action string

// The actions of tools.
const (
	ActionFileRead   Action = "file_read"
	ActionFileWrite  Action = "file_write"
	ActionFileEdit   Action = "file_edit"
	ActionCommandRun Action = "command_run"
	ActionSearch     Action = "search"
	ActionTool       Action = "tool" // anything else
)

// ToolStatus is where a tool call stands.
type ToolStatus string

// The states of a tool call.
const (
	ToolCreated ToolStatus = "created"
	ToolRunning ToolStatus = "running"
	ToolSuccess ToolStatus = "success"
	ToolFailed  ToolStatus = "failed"
)

// Tool is one call of a tool by an agent.
type Tool struct {
	Name     string          `json:"name"`
	Action   Action          `json:"action"`
	Status   ToolStatus      `json:"status"`
	Input    json.RawMessage `json:"input,omitempty"`
	Path     string          `json:"path,omitempty"`     // file_*: the file
	Diff     string          `json:"diff,omitempty"`     // file_edit: a unified diff
	Command  string          `json:"command,omitempty"`  // command_run: the command line, for reading
	ExitCode *int            `json:"exitCode,omitempty"` // command_run: once it ended
	Result   string          `json:"result,omitempty"`   // what came back, possibly shortened
}

// AskState is where an approval or a question stands.
type AskState string

// The states of an ask. Only open ones can be decided.
const (
	AskOpen      AskState = "open"
	AskDecided   AskState = "decided"
	AskTimedOut  AskState = "timed_out" // nobody decided before the deadline; never shown as denied
	AskWithdrawn AskState = "withdrawn" // the agent no longer waits for it
)

// Ask is something the agent waits for: permission to use a tool, or answers.
type Ask struct {
	State     AskState        `json:"state"`
	Tool      string          `json:"tool,omitempty"` // approval: the tool's name
	Action    Action          `json:"action,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`     // approval: the tool's arguments
	Shortened bool            `json:"shortened,omitempty"` // Input is not the whole of it: no rule can allow that
	Questions []Question      `json:"questions,omitempty"` // question: at least one
	Deadline  *time.Time      `json:"deadline,omitempty"`
	Reminders int             `json:"reminders,omitempty"` // how many deadlines have passed; it is asked again at each
	Decision  *Decision       `json:"decision,omitempty"`  // once decided
}

// Question is one question of an [Ask]; its answer is a choice's label or free text.
type Question struct {
	Text     string   `json:"text"`
	Header   string   `json:"header,omitempty"`
	Choices  []Choice `json:"choices,omitempty"`
	Multiple bool     `json:"multiple,omitempty"`
	FreeText bool     `json:"freeText,omitempty"`
}

// Choice is one possible answer to a [Question].
type Choice struct {
	Label       string `json:"label"`
	Description string `json:"description,omitempty"`
}

// Decision settles an [Ask]. For a question only Answers counts.
type Decision struct {
	AskID         string            `json:"askId"`
	Allow         bool              `json:"allow"`
	Message       string            `json:"message,omitempty"`       // why it was denied, told to the agent
	ModifiedInput json.RawMessage   `json:"modifiedInput,omitempty"` // allow, with these arguments instead
	Interrupt     bool              `json:"interrupt,omitempty"`     // deny, and stop the turn
	Answers       map[string]string `json:"answers,omitempty"`       // by the question's text
	By            string            `json:"by,omitempty"`            // who decided
	TimedOut      bool              `json:"timedOut,omitempty"`      // nobody did
}

// Usage is what a run has spent since it started (totals, not differences).
type Usage struct {
	InputTokens  int64   `json:"inputTokens"`
	OutputTokens int64   `json:"outputTokens"`
	CostUSD      float64 `json:"costUsd"`
}

// Activity says what a running execution is doing.
type Activity string

// The activities of a running execution.
const (
	Working  Activity = "working"
	Approval Activity = "approval" // waits for a permission
	Asking   Activity = "question" // waits for an answer
	Idle     Activity = "idle"     // its turn is over; a message starts the next one
)

// Status reports a change; empty fields mean "as before".
type Status struct {
	Activity   Activity `json:"activity,omitempty"`
	SessionRef string   `json:"sessionRef,omitempty"` // what resumes the agent's session
	Pid        int      `json:"pid,omitempty"`        // the agent's process
}

// Reason says why an execution failed.
type Reason string

// The reasons for a failure.
const (
	ReasonExitCode    Reason = "exit_code"    // the program ended with another code than 0
	ReasonOutputLimit Reason = "output_limit" // it wrote more than it may
	ReasonRunnerLost  Reason = "runner_lost"  // its runner was killed
	ReasonAgentError  Reason = "agent_error"  // the agent reported an error or crashed
	ReasonAgentLimit  Reason = "agent_limit"  // usage or rate limit, see [Failure.ResetsAt]
	ReasonAuth        Reason = "auth"         // the agent is not signed in
	ReasonNotFound    Reason = "not_found"    // the binary, directory or session does not exist
	ReasonBudget      Reason = "budget"       // it spent more than it may
)

// Failure is the machine-readable part of an error.
type Failure struct {
	Reason   Reason     `json:"reason"`
	ResetsAt *time.Time `json:"resetsAt,omitempty"` // agent_limit: when to try again
}
