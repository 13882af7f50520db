package engine

import "time"

// Mode says how a capability talks to its agent.
type Mode string

// The modes of a capability.
const (
	ModePrompt   Mode = "prompt"   // a prompt template
	ModeTemplate Mode = "template" // command tokens
)

// OnBusy says what happens to work that meets a busy agent.
type OnBusy string

// The policies of a busy agent. For a new execution steer means queue.
const (
	BusyQueue      OnBusy = "queue"
	BusySteer      OnBusy = "steer"
	BusyReject     OnBusy = "reject"
	BusyConcurrent OnBusy = "concurrent" // the agent's own limit does not count; the global one does
)

// Agent is a configured CLI.
type Agent struct {
	ID              string         `json:"id"`
	Adapter         string         `json:"adapter"`
	Binary          string         `json:"binary,omitempty"`
	Args            []string       `json:"args,omitempty"`
	WorkingDir      string         `json:"workingDir"`
	EnvAllowlist    []string       `json:"envAllowlist,omitempty"`
	MaxConcurrent   int            `json:"maxConcurrent"` // 0: no limit of its own
	OnBusy          OnBusy         `json:"onBusy"`
	IdleTimeout     time.Duration  `json:"-"` // how long it stays up for a reply; 0: it ends with its turn
	ApprovalTimeout time.Duration  `json:"-"`
	OnTimeout       string         `json:"onApprovalTimeout,omitempty"` // deny, wait or remind
	Timeout         time.Duration  `json:"-"`
	MaxOutputBytes  int64          `json:"maxOutputBytes,omitempty"`
	Permission      string         `json:"permissionMode,omitempty"`
	Options         map[string]any `json:"options,omitempty"` // what the adapter understands beyond this
	Budget          Budget         `json:"budget,omitzero"`
	OnLimit         OnLimit        `json:"-"`
}

// Capability is what an agent can be asked to do.
type Capability struct {
	ID             string         `json:"id"` // its key
	Label          string         `json:"label"`
	Description    string         `json:"description,omitempty"`
	AgentID        string         `json:"agentId"`
	Mode           Mode           `json:"mode"`
	Prompt         string         `json:"prompt,omitempty"`     // prompt mode: text with {{name}}
	Command        []string       `json:"command,omitempty"`    // template mode: literal or {{name}} tokens
	ArgsSchema     map[string]any `json:"argsSchema,omitempty"` // JSON Schema of the arguments
	WorkingDir     string         `json:"workingDir,omitempty"` // instead of the agent's
	Timeout        time.Duration  `json:"-"`
	MaxOutputBytes int64          `json:"maxOutputBytes,omitempty"`
	Source         string         `json:"source"` // "built in", or the file
}
