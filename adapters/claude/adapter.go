package claude

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/threadmill/threadmill/adapters/internal/program"
	"github.com/threadmill/threadmill/engine/agent"
)

const (
	// versionWait bounds `claude --version`, which takes 30 ms on a quiet machine.
	versionWait = 5 * time.Second
	// maxVersion is how much of its answer is kept.
	maxVersion = 64

	hintInstall = "install it with `npm install -g @anthropic-ai/claude-code`, then sign in with `claude /login`, or name its path as the agent's binary"
	hintBroken  = "run `claude --version` as the user that runs Threadmill to see what it lacks"
)

// Adapter drives Claude Code.
type Adapter struct{}

// New returns the adapter.
func New() Adapter { return Adapter{} }

// Traits says that Claude Code can do all there is.
func (Adapter) Traits() agent.Traits {
	return agent.Traits{
		Protocol: "stream-json",
		Messages: true, Steering: true, Interrupt: true, Resume: true, Fork: true,
		Approvals: true, Questions: true, Images: true, MCP: true,
	}
}

// Check looks for the CLI and asks it for its version, which needs no network, no
// account and no terminal; `claude doctor` would need the last.
func (Adapter) Check(ctx context.Context, job agent.Job) agent.Availability {
	found := program.Check(job, hintInstall)
	if !found.OK {
		return found
	}
	if _, err := optionsOf(job.Options); err != nil {
		return agent.Availability{Path: found.Path, Problem: err.Error(), Hint: "correct the agent's options in the configuration"}
	}
	version, err := versionOf(ctx, found.Path, job)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return found // a busy machine is no reason to call it broken
	case err != nil:
		return agent.Availability{Path: found.Path, Problem: err.Error(), Hint: hintBroken}
	}
	found.Version = version
	return found
}

// versionOf runs the CLI's --version.
func versionOf(ctx context.Context, path string, job agent.Job) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, versionWait)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, append(job.Argv[1:len(job.Argv):len(job.Argv)], "--version")...)
	var out, complaint bytes.Buffer
	cmd.Env, cmd.Dir, cmd.WaitDelay = job.Env, job.Dir, time.Second
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return "", fmt.Errorf("ask %s for its version: %w", path, ctx.Err())
		}
		return "", fmt.Errorf("%s --version: %w: %s", path, err, program.LastLines(complaint.String()))
	}
	version, _, _ := strings.Cut(strings.TrimSpace(out.String()), " ")
	return strings.ToValidUTF8(version[:min(len(version), maxVersion)], ""), nil
}

// Start starts Claude Code. ctx bounds the start alone.
func (Adapter) Start(ctx context.Context, job agent.Job, rt agent.Runtime) (agent.Session, error) {
	plan, err := planOf(job)
	if err != nil {
		return nil, fmt.Errorf("start Claude Code: %w", err)
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("start Claude Code: %w", ctx.Err())
	}
	first, err := firstMessage(job)
	if err != nil {
		return nil, fmt.Errorf("start Claude Code: %w", err)
	}
	proc, err := rt.Start(agent.Command{Argv: plan.argv, Dir: job.Dir, Env: plan.env, Stdin: true})
	if err != nil {
		return nil, fmt.Errorf("start Claude Code: %w", err)
	}
	return newSession(proc, rt, job, first), nil
}
