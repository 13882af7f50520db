package demo

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/threadmill/threadmill/adapters/internal/program"
	"github.com/threadmill/threadmill/engine/agent"
)

// stateName is the directory of the demo agent's sessions in a state directory.
const stateName = "threadmill-demo"

// optionStateDir is the option that says where sessions are remembered.
const optionStateDir = "state_dir"

// Adapter drives the demo agent. Its job's Argv is the binary and "demo-agent".
type Adapter struct{}

// New returns the adapter.
func New() Adapter { return Adapter{} }

// Traits says that the demo agent can do all but look at images and speak MCP.
func (Adapter) Traits() agent.Traits {
	return agent.Traits{
		Protocol: "demo (JSON lines)",
		Messages: true, Steering: true, Interrupt: true, Resume: true, Fork: true,
		Approvals: true, Questions: true,
	}
}

// Check reports whether the agent's program exists.
func (Adapter) Check(_ context.Context, job agent.Job) agent.Availability {
	return program.Check(job, "the demo agent is threadmill's own binary: set the agent's binary to it and its args to [demo-agent]")
}

// Start starts the agent. ctx bounds the start alone.
func (Adapter) Start(ctx context.Context, job agent.Job, rt agent.Runtime) (agent.Session, error) {
	switch {
	case len(job.Argv) == 0:
		return nil, errors.New("start the demo agent: its argv is empty")
	case job.Fork && job.SessionRef == "":
		return nil, errors.New("start the demo agent: a fork needs the session that it copies")
	case ctx.Err() != nil:
		return nil, fmt.Errorf("start the demo agent: %w", ctx.Err())
	}
	proc, err := rt.Start(agent.Command{Argv: argvOf(job), Dir: job.Dir, Env: job.Env, Stdin: true})
	if err != nil {
		return nil, fmt.Errorf("start the demo agent: %w", err)
	}
	return newSession(proc, rt, job), nil
}

// argvOf adds to the configured command line what the job says.
func argvOf(job agent.Job) []string {
	argv := slices.Clone(job.Argv)
	if dir := stateDir(job); dir != "" {
		argv = append(argv, "--state-dir", dir)
	}
	if job.Permission != "" {
		argv = append(argv, "--permission", job.Permission)
	}
	if job.SessionRef != "" {
		argv = append(argv, "--resume", job.SessionRef)
	}
	if job.Fork {
		argv = append(argv, "--fork")
	}
	return argv
}

// stateDir is where the job's sessions are; empty: the agent finds a place itself.
func stateDir(job agent.Job) string {
	if dir, ok := job.Options[optionStateDir].(string); ok && dir != "" {
		return dir
	}
	if dir := program.Lookup(job.Env, "XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, stateName)
	}
	if home := program.Lookup(job.Env, "HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "state", stateName)
	}
	return ""
}
