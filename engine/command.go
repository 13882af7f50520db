package engine

import (
	"time"

	"github.com/threadmill/threadmill/engine/rundir"
)

// CommandState is how far an order to a runner has come.
type CommandState string

// The states of a command.
const (
	Pending     CommandState = "pending"     // stored; the runner may or may not have it
	Accepted    CommandState = "accepted"    // the runner has it (a message may wait there)
	Handed      CommandState = "handed"      // a message reached the agent
	Refused     CommandState = "refused"     // the runner or the agent said no
	Undelivered CommandState = "undelivered" // the execution ended before the agent had it
)

// Command is an order to a runner as a row: stored first, delivered until the
// runner acknowledges its id, ignored by the runner when it comes again.
type Command struct {
	rundir.Command

	ExecutionID string       `json:"executionId"`
	State       CommandState `json:"state"`
	How         rundir.How   `json:"how,omitempty"`
	Error       string       `json:"error,omitempty"`
	CreatedAt   time.Time    `json:"createdAt"`
	SettledAt   *time.Time   `json:"settledAt,omitempty"`
}
