package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/rundir"
)

const remindConfig = `
engine:
  allowed_working_dirs: [$WORK]
agents:
  demo: {adapter: demo, working_dir: $WORK, approval_timeout: 300ms, on_approval_timeout: remind}
`

// waits returns the one approval of an execution.
func (s *service) waits(x engine.Execution) engine.Approval {
	s.Helper()
	var list []engine.Approval
	s.call("GET", "/api/approvals?state=all&executionId="+x.ID, nil, &list)
	if len(list) != 1 {
		s.Fatalf("#%d waits for %d things", x.Number, len(list))
	}
	return list[0]
}

// TestARuleDecidesWhatWasAskedMeanwhile kills the service, lets an agent ask while it is
// away, and finds that the rule that was made before decides, once.
func TestARuleDecidesWhatWasAskedMeanwhile(t *testing.T) {
	t.Parallel()
	s := newService(t, remindConfig, nil)
	s.start()
	x := s.submit(map[string]any{"capability": "demo", "text": "approve echo one"})
	s.until(x.ID, func(x engine.Execution) bool { return x.Activity == agent.Approval })
	s.eventually("it is asked again", func() bool { return s.waits(x).Ask.Reminders > 1 })
	open := s.waits(x)
	if open.State != agent.AskOpen || open.Ask.Deadline == nil || open.Risk != engine.RiskMedium {
		t.Errorf("asked is %+v", open)
	}
	s.call("POST", "/api/approvals/"+open.ID, map[string]any{"decision": "allow", "scope": "project", "persist": "forever", "match": "echo *"}, nil)
	s.until(x.ID, func(x engine.Execution) bool { return x.Activity == agent.Idle })

	y := s.submit(map[string]any{"capability": "demo", "text": "sleep 1s; approve echo two"})
	y = s.running(y.ID)
	s.kill()
	s.eventually("it asks while nobody is there", func() bool {
		b, err := os.ReadFile(filepath.Join(s.dir(y.ID), rundir.EventsFile))
		return err == nil && bytes.Contains(b, []byte(`"kind":"approval"`))
	})
	s.start()
	after := s.until(y.ID, func(x engine.Execution) bool { return x.Activity == agent.Idle })
	var rules []engine.Rule
	s.call("GET", "/api/rules", nil, &rules)
	if len(rules) != 1 || rules[0].Uses != 1 {
		t.Fatalf("rules %+v", rules)
	}
	if a := s.waits(y); a.State != agent.AskDecided || a.Decision == nil || !a.Decision.Allow || a.Decision.By != "rule "+rules[0].ID {
		t.Errorf("decided %+v", a)
	}
	if after.Pid != y.Pid {
		t.Errorf("the agent's pid was %d and is %d", y.Pid, after.Pid)
	}
	ran := 0
	for _, en := range s.entries(y.ID) {
		if en.Tool != nil && en.Tool.Status == agent.ToolSuccess {
			ran++
		}
	}
	if ran != 1 {
		t.Errorf("it ran %d times", ran)
	}
}
