package engine

import "slices"

// Status is where an execution stands.
type Status string

// The statuses of an execution.
const (
	Queued     Status = "queued"
	Running    Status = "running"
	Cancelling Status = "cancelling"
	Succeeded  Status = "succeeded"
	Failed     Status = "failed"
	TimedOut   Status = "timed_out"
	Cancelled  Status = "cancelled"
)

// Statuses lists all statuses in the order of life.
func Statuses() []Status {
	return []Status{Queued, Running, Cancelling, Succeeded, Failed, TimedOut, Cancelled}
}

// From returns the statuses from which an execution may go to this one. It is the
// one table of transitions; stores put it into the WHERE of the UPDATE, so a late
// finish never overwrites a cancel.
func (s Status) From() []Status {
	switch s {
	case Queued:
		return nil // executions are born queued
	case Running:
		return []Status{Queued}
	case Cancelling:
		return []Status{Queued, Running}
	case Succeeded, TimedOut:
		return []Status{Running}
	case Failed:
		return []Status{Queued, Running} // queued: what it needs is gone when its turn comes
	case Cancelled:
		return []Status{Cancelling}
	}
	return nil
}

// CanBecome reports whether an execution may go from s to next.
func (s Status) CanBecome(next Status) bool { return slices.Contains(next.From(), s) }

// Ended reports whether nothing will happen to the execution any more.
func (s Status) Ended() bool {
	return s == Succeeded || s == Failed || s == TimedOut || s == Cancelled
}

// Live reports whether a runner exists, or may exist, for the execution.
func (s Status) Live() bool { return s == Running || s == Cancelling }

// Valid reports whether s is a status at all.
func (s Status) Valid() bool { return slices.Contains(Statuses(), s) }
