package rundir

import "github.com/threadmill/threadmill/engine/agent"

// The control socket carries JSON lines. The client opens with a [Hello]; the runner
// answers with its own, and closes the connection where the versions differ. Then
// every line to the runner is a [Command] and every line back a [Reply] with the
// command's id, in the order in which the commands were settled.

// Hello opens a control connection in both directions.
type Hello struct {
	Version     int            `json:"version"`
	ExecutionID string         `json:"executionId"`
	Pid         int            `json:"pid,omitempty"`      // the runner's
	LastSeq     int64          `json:"lastSeq,omitempty"`  // of the newest entry
	Activity    agent.Activity `json:"activity,omitempty"` // right now
	Error       string         `json:"error,omitempty"`    // why the runner hangs up
}

// Op is what a [Command] asks for.
type Op string

// The operations of a runner.
const (
	OpMessage   Op = "message"   // hand Message to the agent, as OnBusy says
	OpInterrupt Op = "interrupt" // end the running turn
	OpDecide    Op = "decide"    // settle an ask with Decision
	OpCancel    Op = "cancel"    // stop everything; Force leaves out the polite steps
	OpEnd       Op = "end"       // end an idle session, as success; refused while it works
	OpResize    Op = "resize"    // the pane's new size
	OpPing      Op = "ping"      // are you there
)

// Command is something a runner is told to do. It carries an id; a runner that has
// seen the id answers as before and does nothing.
type Command struct {
	ID       string          `json:"id"`
	Op       Op              `json:"op"`
	Message  *agent.Message  `json:"message,omitempty"`
	OnBusy   string          `json:"onBusy,omitempty"` // message: queue, steer or reject; empty: as the spec says
	Decision *agent.Decision `json:"decision,omitempty"`
	Force    bool            `json:"force,omitempty"`
	Reason   agent.Reason    `json:"reason,omitempty"` // cancel: the run has failed for it, and was not cancelled by a person
	Why      string          `json:"why,omitempty"`    // … in one sentence for people
	By       string          `json:"by,omitempty"`
	Cols     int             `json:"cols,omitempty"`
	Rows     int             `json:"rows,omitempty"`
}

// How tells what a runner did with a command it accepted.
type How string

// The ways in which a command is taken.
const (
	HowDone    How = "done"    // it was carried out
	HowStarted How = "started" // a message: it began a turn
	HowQueued  How = "queued"  // a message: it waits for the running turn to end
	HowSteered How = "steered" // a message: it went into the running turn
)

// The codes of a refused command.
const (
	CodeBusy        = "busy"        // a turn is running and the policy is reject
	CodeEnding      = "ending"      // the run is ending
	CodeUnsupported = "unsupported" // the agent cannot do that
	CodeInvalid     = "invalid"     // the command makes no sense (unknown ask, no text, …)
	CodeFailed      = "failed"      // the agent refused it
)

// Reply is a runner's answer to one [Command].
type Reply struct {
	ID    string `json:"id"`
	OK    bool   `json:"ok"`
	How   How    `json:"how,omitempty"`
	Code  string `json:"code,omitempty"`
	Error string `json:"error,omitempty"`
}
