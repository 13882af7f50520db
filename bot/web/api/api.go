// Package api holds the JSON of the HTTP API that is not simply an engine type:
// requests, envelopes and stream events. The server and its client both use it, so
// they cannot disagree. It knows neither routes nor connections.
package api

import (
	"encoding/json"
	"time"

	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/rundir"
)

// Envelope is what every successful JSON answer is wrapped in.
type Envelope struct {
	Data any   `json:"data"`
	Meta *Meta `json:"meta,omitempty"`
}

// Meta says which part of a list an answer holds.
type Meta struct {
	Page     int   `json:"page,omitempty"`
	PageSize int   `json:"pageSize"`
	Total    *int  `json:"total,omitempty"` // of all that match; left out where counting is no use
	Next     int64 `json:"next,omitempty"`  // entries: pass it as after; audit: as before
}

// Error is every failed answer.
type Error struct {
	Error     string      `json:"error"`
	Code      engine.Code `json:"code"`
	Reference string      `json:"reference,omitempty"` // finds the cause in the service's log
}

// CreateRequest asks for an execution.
type CreateRequest struct {
	Capability     string         `json:"capability,omitempty"` // may be left out with taskId or parentId
	Agent          string         `json:"agent,omitempty"`
	Args           map[string]any `json:"args,omitempty"`
	Text           string         `json:"text,omitempty"`
	Title          string         `json:"title,omitempty"`
	TaskID         string         `json:"taskId,omitempty"`
	ParentID       string         `json:"parentId,omitempty"`
	Resume         bool           `json:"resume,omitempty"` // continue the parent's session
	Fork           bool           `json:"fork,omitempty"`   // continue a copy of it
	Once           bool           `json:"once,omitempty"`   // end with the first turn
	IdempotencyKey string         `json:"idempotencyKey,omitempty"`
}

// Detail is an execution with what it runs. Agent and Capability are left out where
// the configuration no longer has them.
type Detail struct {
	engine.Execution

	Agent      *engine.Agent      `json:"agent,omitempty"`
	Capability *engine.Capability `json:"capability,omitempty"`
}

// CancelRequest stops an execution.
type CancelRequest struct {
	Force bool `json:"force,omitempty"` // leave out the polite steps
}

// MessageRequest says something to a running agent.
type MessageRequest struct {
	ID     string        `json:"id,omitempty"` // the sender's own; saying it twice says it once
	Text   string        `json:"text"`
	OnBusy engine.OnBusy `json:"onBusy,omitempty"` // queue, steer or reject; empty: as the agent's configuration says
}

// Sent tells what became of an order to a runner.
type Sent struct {
	Sent  bool                `json:"sent"`
	ID    string              `json:"id"`
	State engine.CommandState `json:"state"` // pending: stored, the runner will get it
	How   rundir.How          `json:"how,omitempty"`
}

// ForkRequest continues a copy of an execution's session.
type ForkRequest struct {
	Text string `json:"text,omitempty"`
}

// TaskRequest makes a task.
type TaskRequest struct {
	Title        string `json:"title"`
	Context      string `json:"context,omitempty"`
	DocsPath     string `json:"docsPath,omitempty"`
	CapabilityID string `json:"capabilityId,omitempty"`
}

// RunRequest runs a task. Empty fields are as the task says.
type RunRequest struct {
	Capability string         `json:"capability,omitempty"`
	Agent      string         `json:"agent,omitempty"`
	Args       map[string]any `json:"args,omitempty"`
	Text       string         `json:"text,omitempty"`
	Once       bool           `json:"once,omitempty"`
}

// Started tells that a task's execution was started, or waits in the queue.
type Started struct {
	Status      engine.Status `json:"status"` // running or queued
	Pid         int           `json:"pid,omitempty"`
	ExecutionID string        `json:"executionId"`
	Number      int64         `json:"number"`
}

// Stopping tells that a task's execution is being ended.
type Stopping struct {
	Status      string `json:"status"` // stopping
	ExecutionID string `json:"executionId"`
	Number      int64  `json:"number"`
}

// The words of a [DecisionRequest].
const (
	Allow = "allow"
	Deny  = "deny"
)

// Forever is how long a decision is remembered that does not expire.
const Forever = "forever"

// DecisionRequest settles an approval or answers a question. With a scope it is
// remembered as a rule, which is about this tool and exactly this argument unless Tool
// and Match say otherwise.
type DecisionRequest struct {
	Decision      string            `json:"decision,omitempty"`      // allow or deny; may be left out with answers
	Scope         engine.Scope      `json:"scope,omitempty"`         // remember it: run, session, project or user
	Persist       string            `json:"persist,omitempty"`       // for how long: 8h (the default) or forever
	Tool          string            `json:"tool,omitempty"`          // glob of the tools it is remembered for
	Match         string            `json:"match,omitempty"`         // glob of the arguments it is remembered for
	ModifiedInput json.RawMessage   `json:"modifiedInput,omitempty"` // allow, with these arguments instead
	DenyMessage   string            `json:"denyMessage,omitempty"`   // told to the agent
	Interrupt     bool              `json:"interrupt,omitempty"`     // deny, and end the turn
	Answers       map[string]string `json:"answers,omitempty"`       // by the question's text
}

// SessionRequest signs a browser in.
type SessionRequest struct {
	Token string `json:"token"` // what stands behind #token= in a [Link]
}

// Session tells who is signed in.
type Session struct {
	User      string     `json:"user"`
	ExpiresAt *time.Time `json:"expiresAt,omitempty"` // of a browser's; it moves on while it is used
}

// Link signs one browser in, once.
type Link struct {
	URL       string    `json:"url"`
	ExpiresAt time.Time `json:"expiresAt"`
}

// ExtendRequest adds to a budget: a run's, or a user's or an agent's of today.
type ExtendRequest struct {
	Scope          engine.BudgetScope `json:"scope"`
	ID             string             `json:"id"` // run: its id or number; user: who; agent: its id
	USD            float64            `json:"usd"`
	IdempotencyKey string             `json:"idempotencyKey,omitempty"`
}

// Version says what the service is.
type Version struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Go       string `json:"go"`
	Contract int    `json:"contract"`         // of the run directory
	RunDir   string `json:"runDir,omitempty"` // where the service's sockets are, for `attach`
}

// Health says whether the service is ready to take work, and why not.
type Health struct {
	Ready  bool           `json:"ready"`
	Checks []engine.Check `json:"checks"`
}

// NotReady is the answer of a service that is not ready.
type NotReady struct {
	Error

	Data Health `json:"data"`
}

// The names of stream events.
const (
	EventStatus  = "status"
	EventCatchup = "catchup"
	EventLog     = "log"
	EventEntry   = "entry"
	EventDone    = "done"
	EventChange  = "change"
)

// StatusEvent says where the execution stands; it comes first and on each change.
type StatusEvent struct {
	ExecutionID string         `json:"executionId"`
	Number      int64          `json:"number"`
	Status      engine.Status  `json:"status"`
	Activity    agent.Activity `json:"activity,omitempty"`
}

// LogEvent is a piece of the log: whole lines of one stream, without their prefix.
// What was there when the client connected comes as "catchup", the rest as "log".
type LogEvent struct {
	Content  string       `json:"content"`
	Stream   agent.Stream `json:"stream"`
	Complete bool         `json:"complete,omitempty"` // catchup: the last one, from now on it is live
}

// DoneEvent is the last event of a stream.
type DoneEvent struct {
	Status   engine.Status `json:"status"`
	Reason   agent.Reason  `json:"reason,omitempty"`
	Error    string        `json:"error,omitempty"`
	ExitCode *int          `json:"exitCode"`
}

// The types of a [SocketMessage] besides the streams' names.
const (
	SocketExit  = "exit"
	SocketError = "error"
)

// SocketMessage is what the log's WebSocket carries.
type SocketMessage struct {
	Type      string        `json:"type"` // stdout, stderr, system, exit or error
	Data      string        `json:"data"` // lines; exit: the exit code, or the status where there is none
	Timestamp time.Time     `json:"timestamp"`
	Offset    int64         `json:"offset"`             // in the log, after Data: resumes as ?offset=
	Status    engine.Status `json:"status,omitempty"`   // exit
	ExitCode  *int          `json:"exitCode,omitempty"` // exit
}

// ChangeEvent says that something may have changed; it holds nothing.
type ChangeEvent struct{}
