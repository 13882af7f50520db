package agent

import (
	"context"
	"errors"
	"io"
)

// ErrUnsupported is wrapped by what an adapter returns for something its agent
// cannot do. It is shown to the user, never swallowed.
var ErrUnsupported = errors.New("not supported by this agent")

// Adapter drives one kind of agent.
type Adapter interface {
	// Traits says, as data, what the agent can do.
	Traits() Traits
	// Check reports whether the agent can run here: whether its binary exists and
	// what to install or sign in to where it does not. It starts no session.
	Check(ctx context.Context, job Job) Availability
	// Start starts the agent, or resumes the session that job.SessionRef names. The
	// job's Prompt is its first message; the runner has already recorded it.
	Start(ctx context.Context, job Job, rt Runtime) (Session, error)
}

// Traits is what an agent can do. The zero value can do nothing but run to its end.
type Traits struct {
	Protocol  string `json:"protocol"`  // what it speaks, for people: "stream-json", "argv", …
	Commands  bool   `json:"commands"`  // runs a command line; it takes no prompts
	Messages  bool   `json:"messages"`  // takes follow-ups after its turn
	Steering  bool   `json:"steering"`  // takes messages into a running turn
	Interrupt bool   `json:"interrupt"` // can end a turn and live on
	Resume    bool   `json:"resume"`    // continues a finished session
	Fork      bool   `json:"fork"`      // continues a copy of a session
	Approvals bool   `json:"approvals"` // asks before it acts
	Questions bool   `json:"questions"` // asks for answers
	Images    bool   `json:"images"`    // takes images natively
	MCP       bool   `json:"mcp"`       // takes MCP servers
}

// Availability says whether an agent can run on this machine.
type Availability struct {
	OK      bool   `json:"ok"`
	Path    string `json:"path,omitempty"`    // the binary found
	Version string `json:"version,omitempty"` // as far as it can be told cheaply
	Problem string `json:"problem,omitempty"` // why not
	Hint    string `json:"hint,omitempty"`    // what to do about it: a command to install or sign in
}

// Job is what an adapter is to run. Every path is absolute and already checked.
type Job struct {
	ExecutionID string
	Argv        []string       // the whole command line: agents get their binary and args, commands their tokens
	Dir         string         // working directory
	Env         []string       // the complete environment, KEY=VALUE; nothing is to be added from elsewhere
	Prompt      string         // first message; empty for commands and for a resumed session that waits
	Attachments []string       // files that belong to the first message
	OutputDir   string         // files the agent leaves here are sent back
	SessionRef  string         // the session to resume; empty: a new one
	Fork        bool           // resume a copy of SessionRef
	Permission  string         // default, acceptEdits, plan, dontAsk or bypassPermissions
	Options     map[string]any // adapter options from the configuration
}

// Message is a follow-up for a running agent.
type Message struct {
	ID          string   `json:"id"`
	Text        string   `json:"text"`
	From        string   `json:"from,omitempty"`
	Attachments []string `json:"attachments,omitempty"`
}

// Session is a started agent. Its methods may be called from several goroutines;
// each returns when the agent has taken what was said, not when it has acted on it.
type Session interface {
	// Entries yields what the agent does. The adapter closes it when the agent has
	// ended and everything it said has been yielded; until then the runner reads it
	// without pause. The adapter reports Working and Idle in KindStatus entries; the
	// runner derives Approval and Asking from open asks.
	Entries() <-chan Entry
	// Send hands a message to the agent. While a turn runs it is only called where
	// Traits.Steering is set; the runner queues messages for all other agents.
	Send(ctx context.Context, msg Message) error
	// Interrupt ends the running turn; the session lives on. Without Traits.Interrupt
	// it returns an error that wraps ErrUnsupported.
	Interrupt(ctx context.Context) error
	// Decide answers an open ask.
	Decide(ctx context.Context, d Decision) error
	// Close asks the agent to end by itself: no more messages will come. It does not
	// wait; a runner that must have an end signals the processes afterwards.
	Close(ctx context.Context) error
	// Outcome tells how the run ended. It is called after Entries was closed.
	Outcome() Outcome
}

// Outcome is how an agent ended. The zero value is success.
type Outcome struct {
	Reason   Reason   // empty: success
	Message  string   // one sentence for people; empty on success
	ExitCode *int     // of the agent's process, where it exited
	Signal   string   // the name of the signal that ended the process, e.g. "SIGSEGV"
	Failure  *Failure // details of Reason, where there are any
}

// Runtime is what the runner offers to an adapter.
type Runtime interface {
	// Start starts a program of the run: in a process group of its own, bound to the
	// runner's life, and found again by the runner when the run has to stop.
	Start(cmd Command) (Process, error)
	// Wire notes a line of the agent's protocol for diagnosis (size-capped, masked).
	Wire(dir WireDir, line []byte)
	// Print writes text to the run's output log as the given stream, line by line.
	// Entries are printed by the runner itself; this is for what is not an entry.
	Print(stream Stream, text string)
}

// WireDir is the direction of a protocol line, seen from the agent.
type WireDir string

// The directions of protocol lines.
const (
	WireIn  WireDir = "in"  // to the agent
	WireOut WireDir = "out" // from the agent
)

// Stream names where a line of the output log came from.
type Stream string

// The streams of the output log.
const (
	Stdout Stream = "stdout"
	Stderr Stream = "stderr"
	System Stream = "system" // the runner and its notes
)

// Command is a program for [Runtime.Start]. Its stderr always goes to the output log.
type Command struct {
	Argv      []string // Argv[0] is looked up in the PATH of Env
	Dir       string
	Env       []string
	Stdin     bool // connect a pipe to [Process.Stdin]; otherwise it reads end of file
	LogStdout bool // copy stdout into the output log; otherwise the adapter must read [Process.Stdout]
}

// Process is a started program.
type Process interface {
	Pid() int
	Stdin() io.WriteCloser // nil unless Command.Stdin
	Stdout() io.Reader     // nil where Command.LogStdout; ends with io.EOF
	// Wait waits for the exit and for the output to be read, but no longer than a short
	// bound after the exit for the latter: a grandchild that holds a pipe open must not
	// hang it. It may be called more than once.
	Wait() ExitStatus
	// Terminate sends SIGTERM to the program's process group; already gone is no error.
	Terminate() error
}

// ExitStatus is how a process ended.
type ExitStatus struct {
	Code   int    // -1 where a signal ended it
	Signal string // e.g. "SIGKILL"; empty after an exit
	Tail   string // the last lines it wrote to stderr, for error messages
}
