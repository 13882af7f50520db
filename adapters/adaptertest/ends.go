package adaptertest

import (
	"errors"
	"strings"
	"testing"

	"github.com/threadmill/threadmill/engine/agent"
)

// endScenarios are the runs that end badly by themselves, as the subject lists them.
func endScenarios(s Subject) []scenario {
	var list []scenario
	for _, end := range s.Ends {
		list = append(list, scenario{
			name: "end: " + end.Name,
			run:  func(t *testing.T, s Subject) { endsBadly(t, s, end) },
		})
	}
	return append(list, scenario{name: "what is not declared is refused", run: refuses})
}

func endsBadly(t *testing.T, s Subject, end End) {
	d := start(t, s, end.Case)
	out := d.outcome()
	d.sees(end.Want)
	if out.Reason != end.Reason || !strings.Contains(out.Message, end.Message) || out.Message == "" {
		t.Errorf("outcome %s, want reason %q and a message with %q", show(out), end.Reason, end.Message)
	}
	if end.ExitCode != 0 && (out.ExitCode == nil || *out.ExitCode != end.ExitCode) {
		t.Errorf("outcome %s, want exit code %d", show(out), end.ExitCode)
	}
	if end.Signal && (out.Signal == "" || out.ExitCode != nil) {
		t.Errorf("outcome %s, want a signal and no exit code", show(out))
	}
	if end.Resets && (out.Failure == nil || out.Failure.ResetsAt == nil || out.Failure.ResetsAt.IsZero()) {
		t.Errorf("outcome %s, want the time when it resets", show(out))
	}
}

// refuses asks for everything that the traits do not declare.
func refuses(t *testing.T, s Subject) {
	traits := s.Adapter.Traits()
	c := s.Answer
	if s.Long.given() {
		c = s.Long
	}
	d := start(t, s, c)
	declared := map[string]bool{
		"send": traits.Messages, "interrupt": traits.Interrupt, "decide": traits.Approvals || traits.Questions,
	}
	for what, call := range calls(d.session) {
		if declared[what] {
			continue
		}
		if err := d.try(call); !errors.Is(err, agent.ErrUnsupported) {
			t.Errorf("%s = %v, want an error that wraps ErrUnsupported", what, err)
		}
	}
	refusesJob(t, s, traits.Resume, func(j *agent.Job) { j.SessionRef = "1" })
	refusesJob(t, s, traits.Fork, func(j *agent.Job) { j.SessionRef, j.Fork = "1", true })
}

func refusesJob(t *testing.T, s Subject, declared bool, edit func(*agent.Job)) {
	t.Helper()
	if declared {
		return
	}
	job := jobFor(t, s, s.Answer)
	edit(&job)
	if _, err := s.Adapter.Start(t.Context(), job, NewRuntime(t)); !errors.Is(err, agent.ErrUnsupported) {
		t.Errorf("start of session %q (fork: %t) = %v, want an error that wraps ErrUnsupported", job.SessionRef, job.Fork, err)
	}
}
