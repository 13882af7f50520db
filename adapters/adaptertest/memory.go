package adaptertest

import (
	"testing"

	"github.com/threadmill/threadmill/engine/agent"
)

// sessionScenarios are about what a session remembers.
func sessionScenarios() []scenario {
	resume := func(tr agent.Traits) bool { return tr.Resume }
	fork := func(tr agent.Traits) bool { return tr.Fork }
	given := func(s Subject) bool { return s.Memory.Tell != "" && s.Memory.Ask != "" }
	return []scenario{
		{name: "resume: remembers", trait: resume, given: given, run: resumes},
		{name: "resume: after a kill", trait: resume, given: given, run: resumesKilled},
		{name: "resume: unknown session", trait: resume, given: given, run: resumesUnknown},
		{name: "fork: remembers, apart from the original", trait: fork, given: given, run: forks},
	}
}

// tell has a session that was told something and returns what resumes it.
func tell(t *testing.T, s Subject, end func(*drive)) (job agent.Job, ref string) {
	t.Helper()
	job = jobFor(t, s, Case{Prompt: s.Memory.Tell})
	d := startJob(t, s, job)
	d.turn(1)
	ref = d.sessionRef()
	end(d)
	return job, ref
}

func resumes(t *testing.T, s Subject) {
	job, ref := tell(t, s, (*drive).succeeds)
	job.Prompt, job.SessionRef = s.Memory.Ask, ref
	d := startJob(t, s, job)
	d.turn(1)
	d.sees(s.Memory.Want)
	d.succeeds()
}

func resumesKilled(t *testing.T, s Subject) {
	job, ref := tell(t, s, func(d *drive) { d.rt.stop() })
	job.Prompt, job.SessionRef = s.Memory.Ask, ref
	d := startJob(t, s, job)
	d.turn(1)
	d.sees(s.Memory.Want)
	d.succeeds()
}

// resumesUnknown accepts a refused start as well as a run that ends with the reason.
func resumesUnknown(t *testing.T, s Subject) {
	job := jobFor(t, s, s.Answer)
	job.SessionRef = "00000000-0000-4000-8000-000000000000"
	rt := NewRuntime(t)
	session, err := s.Adapter.Start(t.Context(), job, rt)
	if err != nil {
		return
	}
	out := adopt(t, s, rt, session).outcome()
	if out.Reason != agent.ReasonNotFound || out.Message == "" {
		t.Errorf("outcome %s, want reason %q and a message", show(out), agent.ReasonNotFound)
	}
}

func forks(t *testing.T, s Subject) {
	job, ref := tell(t, s, (*drive).succeeds)
	job.Prompt, job.SessionRef, job.Fork = s.Memory.Ask, ref, true
	d := startJob(t, s, job)
	d.turn(1)
	d.sees(s.Memory.Want)
	if got := d.sessionRef(); got == ref {
		t.Errorf("the fork has the session of the original, %s", ref)
	}
	d.succeeds()
}
