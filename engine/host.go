package engine

import (
	"context"
	"errors"
	"io"

	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/rundir"
)

// ErrRunnerLost is what [Host.Follow] returns when an execution's runner is gone
// and left no result.
var ErrRunnerLost = errors.New("the runner is gone and left no result")

// Host is the part that starts runners on one machine and follows their files. All
// of it takes plain values and ids, so a host on another machine can be the same
// contract over a network.
type Host interface {
	// Launch starts the runner of an execution. It is safe to repeat: at most one
	// runner per execution ever gets past its lock.
	Launch(ctx context.Context, spec rundir.Spec, secrets rundir.Secrets) (Launched, error)
	// Inspect looks at what there is of an execution. It changes nothing.
	Inspect(ctx context.Context, id string) (Sighting, error)
	// Follow reads an execution's entries on from a cursor and passes batches to sink,
	// in order, until the run has ended; then it returns how. It re-attaches to a live
	// runner, gives it a new pane where the tmux server died, and returns ErrRunnerLost
	// where the runner is gone without a result. An error of sink stops it.
	Follow(ctx context.Context, id string, from rundir.Cursor, sink func(context.Context, Batch) error) (rundir.Result, error)
	// Do delivers a command to a runner and waits for its reply. An error means that
	// the outcome is unknown; the same command may be delivered again.
	Do(ctx context.Context, id string, cmd rundir.Command) (rundir.Reply, error)
	// Kill ends the runner and every process of the execution, however far it ran away.
	Kill(ctx context.Context, id string) (Killed, error)
	// Files opens what an execution has written.
	Files(id string) (Files, error)
	// Remove deletes an ended execution's directory.
	Remove(ctx context.Context, id string) error
	// Check tells whether runs get a terminal here, and why not.
	Check(ctx context.Context) (detail string, err error)
}

// Launched tells what Launch did.
type Launched struct {
	TmuxSession string // empty: started without a terminal
	Notice      string // for people, where something is not as it should be (no tmux)
}

// Sighting is what Inspect found.
type Sighting struct {
	Result *rundir.Result // it has ended
	Spec   bool           // its directory is there
	Info   bool           // a runner has started
	Answer bool           // the runner answers on its socket
	Alive  bool           // the runner's process exists
	Pane   string         // the name of its tmux session; empty: there is none
}

// Batch is what Follow found new.
type Batch struct {
	Entries  []agent.Entry
	Cursor   rundir.Cursor // after the last of Entries
	LogBytes int64         // the log's size now
	LogLines int64
}

// Killed tells what Kill did.
type Killed struct {
	Ended int // processes that were there
	Left  int // processes that still are
}

// Files is what an execution has written, for readers. It is cheap to make.
type Files interface {
	// OpenEntries opens what the agent did, on after a sequence number.
	OpenEntries(ctx context.Context, after int64) (EntryReader, error)
	// OpenLog opens the whole log, rotated parts included, as one. It grows while the
	// execution runs; reading at its end returns io.EOF.
	OpenLog() (Log, error)
	// Tail returns the last n lines of the log, without their line ends.
	Tail(n int) ([]string, error)
	// Changed returns a channel that gets a value, at least once, after the files have
	// changed; stop releases it.
	Changed() (bell <-chan struct{}, stop func())
}

// EntryReader reads a growing sequence of entries. It is for one goroutine at a time.
type EntryReader interface {
	// Next returns up to limit entries; none where there is nothing new yet.
	Next(limit int) ([]agent.Entry, error)
	io.Closer
}

// Log is an open output log.
type Log interface {
	io.ReadSeeker
	io.Closer
	io.ReaderAt
	Size() (int64, error) // now
}
