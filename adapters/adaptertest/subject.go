// Package adaptertest is the definition of done for an adapter: a suite that drives
// one through [agent.Adapter] and [agent.Session] alone, against real processes. The
// adapter says how to provoke each scenario; what it does not declare in its traits
// has to be refused with [agent.ErrUnsupported] and is reported as unsupported. The
// package knows no adapter and no runner.
package adaptertest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/threadmill/threadmill/engine/agent"
)

// Subject is an adapter under test with what provokes each scenario. What stays zero
// is reported as unsupported, unless the traits declare it: then it is a failure.
type Subject struct {
	Adapter agent.Adapter
	// Job returns a job that is ready to be started but for its prompt, in directories
	// of its own. Jobs of one test share what sessions are remembered in.
	Job func(t *testing.T) agent.Job
	// Patience is how long the suite waits for anything; 0 means a minute.
	Patience time.Duration

	Answer   Case     // a turn, or a run, that ends well
	Stream   Case     // one whose text comes in parts
	Tool     Case     // one in which a tool ends well
	BadTool  Case     // one in which a tool fails
	Think    Case     // one that shows its reasoning
	Usage    Case     // one that tells what it spent
	Long     Case     // one that is busy for a minute or more
	FollowUp Case     // a second turn
	Approval Approval // a turn that asks for permission
	Question Question // a turn that asks a question
	Memory   Memory   // two turns of which the second knows the first
	Ends     []End    // runs that end badly by themselves
	Noise    Noise    // output that the adapter has to survive
}

// Case provokes something: as a prompt, or as a command line that takes the place of
// the job's.
type Case struct {
	Prompt string
	Argv   []string
	Want   string // has to be in what was said, what a tool gave back, or the log
}

func (c Case) given() bool { return c.Prompt != "" || len(c.Argv) > 0 }

// Approval is a prompt whose turn asks for permission once.
type Approval struct {
	Prompt   string
	Allowed  string          // is seen after it was allowed, and only then
	Denied   string          // is seen after it was denied with the message "not today"
	Modified json.RawMessage // another input
	Changed  string          // is seen after it was allowed with that input, and only then
}

// Question is a prompt whose turn asks one question.
type Question struct {
	Prompt string
	Answer string // the answer to be given
	Want   string // is seen then
}

// Memory is two prompts: after the first, the second makes the agent say Want.
type Memory struct {
	Tell string
	Ask  string
	Want string
}

// End is a run that ends by itself with a failure.
type End struct {
	Name string
	Case
	Reason   agent.Reason
	ExitCode int    // 0: not checked
	Signal   bool   // a signal ends the process
	Message  string // has to be in the outcome's message
	Resets   bool   // the outcome knows when to try again
}

// Noise is lines of the agent's protocol, good and bad, that are printed after general
// noise; of the good ones Want has to be seen.
type Noise struct {
	Lines []string
	Want  string
}
