package engine

import (
	"time"

	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/rundir"
)

// Execution is one run of a capability. Its JSON form is that of the HTTP API.
type Execution struct {
	ID           string         `json:"id"`     // time-ordered, for machines
	Number       int64          `json:"number"` // from 1, for people: #42
	TaskID       string         `json:"taskId"`
	AgentID      string         `json:"agentId"`
	CapabilityID string         `json:"capabilityId"`
	ParentID     string         `json:"parentId,omitempty"` // the execution it resumes, forks or retries
	Status       Status         `json:"status"`
	Activity     agent.Activity `json:"activity,omitempty"` // only while running
	Reason       agent.Reason   `json:"reason,omitempty"`   // only when failed
	Error        string         `json:"error,omitempty"`    // one sentence for people
	ResetsAt     *time.Time     `json:"resetsAt,omitempty"` // agent_limit: when to try again
	Mode         Mode           `json:"mode"`
	Args         map[string]any `json:"args,omitempty"`
	Prompt       string         `json:"prompt,omitempty"`
	Once         bool           `json:"once,omitempty"`       // ends with its first turn
	SessionRef   string         `json:"sessionRef,omitempty"` // what resumes the agent's session
	Fork         bool           `json:"fork,omitempty"`
	Dir          string         `json:"dir"` // working directory
	Pid          int            `json:"pid,omitempty"`
	TmuxSession  string         `json:"tmuxSession,omitempty"`
	ExitCode     *int           `json:"exitCode,omitempty"`
	Signal       string         `json:"signal,omitempty"`
	Ended        int            `json:"processesEnded,omitempty"` // processes that had to be ended
	Left         int            `json:"processesLeft,omitempty"`  // processes that could not be
	RequestedBy  string         `json:"requestedBy"`
	CreatedAt    time.Time      `json:"createdAt"`
	StartedAt    *time.Time     `json:"startedAt,omitempty"`
	EndedAt      *time.Time     `json:"endedAt,omitempty"`
	IdleSince    *time.Time     `json:"idleSince,omitempty"` // only while idle
	HeartbeatAt  *time.Time     `json:"heartbeatAt,omitempty"`
	LogByteSize  int64          `json:"logByteSize"`
	LogLineCount int64          `json:"logLineCount"`
	LogsDeleted  bool           `json:"logsDeleted,omitempty"` // retention removed its files
	Usage        agent.Usage    `json:"usage"`
	Budget       RunBudget      `json:"budget,omitzero"`
	NotBefore    *time.Time     `json:"notBefore,omitempty"` // queued: it is parked until then
	Resumes      int            `json:"resumes,omitempty"`   // how often in a row it was resumed by itself

	IdempotencyKey string        `json:"-"`
	Cursor         rundir.Cursor `json:"-"` // how far its entries have acted
	Argv           []string      `json:"-"` // template mode: the resolved command
	Attachments    []string      `json:"-"` // files that belong to the prompt
}

// NewExecution is a request that was checked and resolved, ready to be stored.
type NewExecution struct {
	Execution Execution // ID, CreatedAt and all that was asked for; Number is the store's to give
	Task      Task      // stored as well where its ID is new; otherwise moved to in_progress
	Audit     Audit

	// RejectAt refuses the execution with CodeConflict where that many executions of
	// its agent are queued, or hold a place, already; 0: never. The store checks it in
	// the transaction that inserts, so two requests cannot both be the last one in.
	RejectAt int

	// TaskFree refuses it with CodeConflict where the task has an execution that has
	// not ended; checked in the same transaction.
	TaskFree bool

	// Caps refuses it with CodeConflict where a budget of the day is used up; checked
	// in the same transaction.
	Caps DayCaps
}

// Filter selects executions. Zero fields select everything.
type Filter struct {
	TaskID   string
	AgentID  string
	Statuses []Status
	Page     int // from 1; 0 means 1
	PageSize int // 1–200; 0 means 50
}

// Change is one guarded change of an execution's status, with everything that has
// to be true at the same moment. Nil and zero fields leave the column as it is.
type Change struct {
	ID string
	To Status
	At time.Time

	Reason      agent.Reason
	Error       string
	ResetsAt    *time.Time
	ExitCode    *int
	Signal      string
	Ended, Left int
	SessionRef  string
	TmuxSession string
	Usage       *agent.Usage
	Days        []DayUsage // Usage by day, for the budgets
	LogBytes    int64
	LogLines    int64
	Tail        []string // the last lines of output, kept on the task
	Unsent      []string // commands that never reached the agent: settled as undelivered

	Command *Command // stored in the same transaction (a cancel's order to the runner)
	Audit   *Audit
	Then    *NewExecution // what follows by itself; stored in the same transaction
}

// Progress is what a batch of entries changed about a live execution. The store
// commits it together with the cursor, so each entry acts exactly once.
type Progress struct {
	ID       string
	Cursor   rundir.Cursor
	Activity agent.Activity
	Worked   bool // it was busy meanwhile: where it is idle, it is so anew
	Session  string
	Pid      int
	Usage    *agent.Usage
	Days     []DayUsage // Usage by day, for the budgets
	LogBytes int64
	LogLines int64
	Tmux     string     // the tmux session, once the host has given it one
	Asks     []Approval // what the runner says of its asks; its word replaces what was stored
	Handed   []string   // ids of messages that reached the agent
}

// Empty reports whether p changes nothing but the cursor and the sizes, in which
// case committing it can wait: entries without an effect may be read twice.
func (p Progress) Empty() bool {
	return p.Activity == "" && p.Session == "" && p.Pid == 0 && p.Usage == nil && p.Tmux == "" &&
		len(p.Asks) == 0 && len(p.Handed) == 0
}
