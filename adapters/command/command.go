// Package command is the adapter for ordinary programs: an argv is run to its end, its
// output is the run's log, its exit code the result. It takes no messages, asks
// nothing and knows nothing about what it runs.
package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/threadmill/threadmill/adapters/internal/program"
	"github.com/threadmill/threadmill/engine/agent"
)

// hint is what to do about a program that is not there.
const hint = "install it or add its directory to the agent's PATH"

// toolID names the one tool call of a run.
const toolID = "command"

// Adapter runs [agent.Job.Argv].
type Adapter struct{}

// New returns the adapter.
func New() Adapter { return Adapter{} }

// Traits says that a command can do nothing but run to its end.
func (Adapter) Traits() agent.Traits { return agent.Traits{Protocol: "argv", Commands: true} }

// Check reports whether the program exists. An agent whose capabilities each bring
// their own program has nothing to check.
func (Adapter) Check(_ context.Context, job agent.Job) agent.Availability {
	if len(job.Argv) == 0 || job.Argv[0] == "" {
		return agent.Availability{OK: true}
	}
	return program.Check(job, hint)
}

// Start runs the command. ctx bounds the start alone.
func (Adapter) Start(ctx context.Context, job agent.Job, rt agent.Runtime) (agent.Session, error) {
	switch {
	case len(job.Argv) == 0:
		return nil, errors.New("start a command: its argv is empty")
	case job.SessionRef != "":
		return nil, unsupported("a command has no session to resume; retry it")
	case ctx.Err() != nil:
		return nil, fmt.Errorf("start %s: %w", job.Argv[0], ctx.Err())
	}
	proc, err := rt.Start(agent.Command{Argv: job.Argv, Dir: job.Dir, Env: job.Env, LogStdout: true})
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", job.Argv[0], err)
	}
	s := &session{entries: make(chan agent.Entry, entriesPerRun)}
	go s.follow(proc, toolFor(job.Argv))
	return s, nil
}

func toolFor(argv []string) agent.Tool {
	input, err := json.Marshal(map[string]any{"argv": argv})
	if err != nil {
		input = nil // strings always encode
	}
	return agent.Tool{
		Name: filepath.Base(argv[0]), Action: agent.ActionCommandRun,
		Input: input, Command: program.Quote(argv),
	}
}

func unsupported(why string) error {
	return fmt.Errorf("%s: %w", why, agent.ErrUnsupported)
}
