package command

import (
	"context"

	"github.com/threadmill/threadmill/adapters/internal/program"
	"github.com/threadmill/threadmill/engine/agent"
)

// entriesPerRun is how many entries a run has. The channel holds them all, so the
// goroutine that follows the program ends with it even if nobody reads.
const entriesPerRun = 4

type session struct {
	entries chan agent.Entry
	outcome agent.Outcome // written before entries is closed, read after
}

// follow reports the run of proc to its end.
func (s *session) follow(proc agent.Process, tool agent.Tool) {
	defer close(s.entries)
	s.entries <- agent.Entry{Kind: agent.KindStatus, Status: &agent.Status{Activity: agent.Working, Pid: proc.Pid()}}
	s.report(tool, agent.ToolCreated)
	s.report(tool, agent.ToolRunning)
	st := proc.Wait()
	s.outcome = outcomeOf(st)
	tool.ExitCode, tool.Result = s.outcome.ExitCode, s.outcome.Message
	if s.outcome.Reason == "" {
		s.report(tool, agent.ToolSuccess)
		return
	}
	s.report(tool, agent.ToolFailed)
}

func (s *session) report(tool agent.Tool, status agent.ToolStatus) {
	tool.Status = status
	s.entries <- agent.Entry{Kind: agent.KindToolUse, ID: toolID, Tool: &tool}
}

func outcomeOf(st agent.ExitStatus) agent.Outcome {
	out := agent.Outcome{Signal: st.Signal, Message: program.Ending(st)}
	if st.Signal == "" {
		out.ExitCode = &st.Code
	}
	if out.Message != "" {
		out.Reason = agent.ReasonExitCode
		out.Failure = &agent.Failure{Reason: out.Reason}
	}
	return out
}

// Entries yields what there is to say about the run.
func (s *session) Entries() <-chan agent.Entry { return s.entries }

// Outcome is the exit code.
func (s *session) Outcome() agent.Outcome { return s.outcome }

// Send is unsupported: nobody reads.
func (s *session) Send(context.Context, agent.Message) error {
	return unsupported("a command takes no messages")
}

// Interrupt is unsupported: a command has no turns.
func (s *session) Interrupt(context.Context) error {
	return unsupported("a command cannot be interrupted and live on; cancel it instead")
}

// Decide is unsupported: a command asks nothing.
func (s *session) Decide(context.Context, agent.Decision) error {
	return unsupported("a command asks nothing")
}

// Close does nothing: a command has read the end of its input from the beginning and
// ends by itself.
func (s *session) Close(context.Context) error { return nil }
