package engine

import (
	"strconv"
	"time"

	"github.com/threadmill/threadmill/engine/rundir"
	"github.com/threadmill/threadmill/engine/safety"
)

// prepare builds everything a runner needs from a stored execution. What was checked
// when it was asked for is checked again: it may have waited in the queue for hours.
func (e *Engine) prepare(x Execution) (rundir.Spec, rundir.Secrets, error) {
	cat := e.catalog.Load()
	a, ok := cat.Agents[x.AgentID]
	if !ok {
		return rundir.Spec{}, rundir.Secrets{}, Errorf(CodeNotFound, "agent %q is no longer configured", x.AgentID)
	}
	c := cat.Capabilities[x.CapabilityID] // its limits; gone is no reason not to run
	dir, err := safety.WorkingDir(x.Dir, cat.AllowedDirs)
	if err != nil {
		return rundir.Spec{}, rundir.Secrets{}, refusal("working directory", err)
	}
	facts := map[string]string{
		"THREADMILL_EXECUTION": x.ID,
		"THREADMILL_NUMBER":    strconv.FormatInt(x.Number, 10),
		"THREADMILL_TASK":      x.TaskID,
	}
	env := e.agentEnv(a, facts)
	spec := rundir.Spec{
		ExecutionID: x.ID, Number: x.Number, Title: c.Label, Agent: a.ID, Adapter: a.Adapter, Argv: x.Argv, Dir: dir,
		Prompt: x.Prompt, PromptID: x.ID, From: x.RequestedBy, Attachments: x.Attachments,
		SessionRef: x.SessionRef, Fork: x.Fork, Permission: a.Permission, OnBusy: string(a.OnBusy), CreatedAt: x.CreatedAt,
		Options:         a.Options,
		Timeout:         rundir.Duration(first(c.Timeout, a.Timeout)),
		IdleTimeout:     rundir.Duration(idleTimeout(x, a)),
		ApprovalTimeout: rundir.Duration(a.ApprovalTimeout),
		OnTimeout:       a.OnTimeout,
		MaxOutputBytes:  first(c.MaxOutputBytes, a.MaxOutputBytes),
	}
	if x.Mode == ModePrompt {
		spec.Argv = agentArgv(a)
	}
	return spec, rundir.Secrets{Env: env, Mask: safety.Secrets(env, a.EnvAllowlist)}, nil
}

// idleTimeout is how long the execution stays up after a turn.
func idleTimeout(x Execution, a Agent) time.Duration {
	if x.Once {
		return 0
	}
	return a.IdleTimeout
}

// first returns the first value that says something.
func first[T comparable](values ...T) T {
	var none T
	for _, v := range values {
		if v != none {
			return v
		}
	}
	return none
}
