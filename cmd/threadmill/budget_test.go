package main

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/agent"
)

// budgetConfig has small budgets: whose day is limited differs by agent.
const budgetConfig = `
engine:
  allowed_working_dirs: [$WORK]
agents:
  demo:  {adapter: demo, working_dir: $WORK, budget: {per_run_usd: 5, per_run_tokens: 5000}}
  day:   {adapter: demo, working_dir: $WORK, budget: {per_day_usd: 10}}
  user:  {adapter: demo, working_dir: $WORK, budget: {per_user_day_usd: 100}}
  limit: {adapter: demo, working_dir: $WORK, on_limit: {action: resume, max: 1}}
  offer: {adapter: demo, working_dir: $WORK}
`

func (s *service) demo(agentID, text string) engine.Execution {
	s.Helper()
	return s.submit(map[string]any{"capability": "demo", "agent": agentID, "text": text})
}

// wantBudgetEnd checks that a run was stopped for a budget, with nothing of it left.
func (s *service) wantBudgetEnd(id, says string) {
	s.Helper()
	x := s.wait(id)
	if x.Status != engine.Failed || x.Reason != agent.ReasonBudget || !strings.Contains(x.Error, says) {
		s.Errorf("#%d ended as %s (%s): %q", x.Number, x.Status, x.Reason, x.Error)
	}
	if pids := left(s, id); len(pids) > 0 {
		s.Errorf("#%d left processes %v", x.Number, pids)
	}
	if !strings.Contains(strings.Join(s.logLines(id), "\n"), says) {
		s.Errorf("the log of #%d does not say why it was stopped", x.Number)
	}
}

// TestRunBudget spends a run's budget: there is a warning, it can be extended, and at
// the end the run is stopped.
func TestRunBudget(t *testing.T) {
	t.Parallel()
	s := newService(t, budgetConfig, nil)
	s.start()
	x := s.demo("demo", "usage 4.50 100; ask go on? | yes; usage 1 100; ask go on? | yes; usage 10 100; sleep 10m")
	got := s.until(x.ID, func(x engine.Execution) bool { return x.Budget.Warned && x.Activity == agent.Asking })
	if got.Budget.SpentUSD != 4.5 || got.Budget.CapUSD != 5 || !strings.Contains(got.Budget.Warning, "$4.50 of $5.00") {
		t.Errorf("budget %+v", got.Budget)
	}
	var lines []engine.BudgetLine
	s.call("POST", "/api/budget/extend", map[string]any{"scope": "run", "id": fmt.Sprint(x.Number), "usd": 2}, &lines)
	if len(lines) != 1 || lines[0].CapUSD != 7 || *lines[0].LeftUSD != 2.5 {
		t.Errorf("extended: %+v", lines)
	}
	s.kill()
	s.start() // the budget is as it was
	s.answer(x.ID)
	s.until(x.ID, func(x engine.Execution) bool { return x.Usage.CostUSD == 5.5 && x.Activity == agent.Asking })
	s.answer(x.ID)
	s.wantBudgetEnd(x.ID, "it has spent $15.50 of $7.00")
	s.wantBudgetEnd(s.demo("demo", "usage 0.10 6000; sleep 10m").ID, "6000 of 5000 tokens")
	again := s.demo("demo", "usage 1 1; say done")
	s.until(again.ID, func(x engine.Execution) bool { return x.Activity == agent.Idle })
	var rows []engine.Audit
	s.call("GET", "/api/audit?object="+x.ID, nil, &rows)
	var actions []string
	for _, r := range rows {
		actions = append(actions, r.Action)
	}
	for _, want := range []string{"budget.warn", "budget.extend", "budget.stop"} {
		if strings.Count(strings.Join(actions, " "), want) != 1 {
			t.Errorf("%s is not there once in the audit trail: %v", want, actions)
		}
	}
}

// answer says yes to what an execution asks.
func (s *service) answer(id string) {
	s.Helper()
	s.eventually("the question is open", func() bool {
		var open []engine.Approval
		if s.try("GET", "/api/approvals?executionId="+id, nil, &open) != nil || len(open) != 1 {
			return false
		}
		answers := map[string]string{open[0].Ask.Questions[0].Text: "yes"}
		return s.try("POST", "/api/approvals/"+open[0].ID, map[string]any{"answers": answers}, nil) == nil
	})
}

// TestDayBudget spends an agent's budget for the day: other runs of it are stopped,
// idle ones get no messages, new ones are refused, until it is extended.
func TestDayBudget(t *testing.T) {
	t.Parallel()
	s := newService(t, budgetConfig, nil)
	s.start()
	idle, working, other := s.demo("day", "say hello"), s.demo("day", "sleep 10m"), s.demo("user", "sleep 10m")
	s.until(idle.ID, func(x engine.Execution) bool { return x.Activity == agent.Idle })
	s.running(working.ID)
	s.running(other.ID)
	s.wantBudgetEnd(s.demo("day", "usage 10 1; sleep 10m").ID, "the budget of agent day for today")
	s.wantBudgetEnd(working.ID, "$10.00 of $10.00")
	refused := func(path string, body map[string]any) {
		t.Helper()
		var e *callError
		if err := s.try("POST", path, body, nil); !errors.As(err, &e) || e.Status != 409 || !strings.Contains(e.Text, "budget of agent day") {
			t.Errorf("POST %s: %v", path, err)
		}
	}
	refused("/api/executions", map[string]any{"capability": "demo", "agent": "day", "text": "hello"})
	refused("/api/executions/"+idle.ID+"/message", map[string]any{"text": "hello"})
	refused("/api/executions/"+working.ID+"/retry", nil)
	refused("/api/executions/"+idle.ID+"/fork", map[string]any{"text": "hello"})
	out, err := s.program("budget", "extend", "agent", "day", "2.50").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "agent day") || !strings.Contains(string(out), "$12.50") {
		t.Errorf("budget extend: %v\n%s", err, out)
	}
	s.call("POST", "/api/executions/"+idle.ID+"/message", map[string]any{"text": "hello again"}, nil)
	if x := s.get(other.ID); x.Status != engine.Running {
		t.Errorf("another agent's run is %s", x.Status)
	}
	var report engine.BudgetReport
	s.call("GET", "/api/budget", nil, &report)
	if a := report.Agents[0]; a.ID != "day" || a.SpentUSD != 10 || a.CapUSD != 12.5 || *a.LeftUSD != 2.5 || !a.Warned {
		t.Errorf("agent: %+v", a)
	}
	if u := report.Users[0]; u.ID != "web" || u.AgentID != "user" || u.SpentUSD != 10 || u.CapUSD != 100 {
		t.Errorf("user: %+v", u)
	}
	if out, err = s.program("budget").CombinedOutput(); err != nil || !strings.Contains(string(out), "user web with user") {
		t.Errorf("budget: %v\n%s", err, out)
	}
}

// program is a command line of this service's.
func (s *service) program(args ...string) *exec.Cmd {
	cmd := exec.Command(s.bin, args...)
	cmd.Env, cmd.Dir = s.env, s.home
	return cmd
}

// TestParked meets a usage limit: the run is parked until it resets, also while the
// service is away, goes on by itself once, and no more than that.
func TestParked(t *testing.T) {
	t.Parallel()
	s := newService(t, budgetConfig, nil)
	s.start()
	x := s.wait(s.demo("limit", "usage 1 1; limit 10s").ID)
	if x.Reason != agent.ReasonAgentLimit || x.ResetsAt == nil {
		t.Fatalf("it ended as %s (%s)", x.Status, x.Reason)
	}
	child := s.childOf(x)
	if child.Status != engine.Queued || child.NotBefore == nil || child.NotBefore.Before(*x.ResetsAt) || child.Resumes != 1 {
		t.Errorf("parked: %+v", child)
	}
	out, err := s.program("ps").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "parked until") {
		t.Errorf("ps: %v\n%s", err, out)
	}
	s.kill()
	s.start()
	done := s.until(child.ID, func(x engine.Execution) bool { return x.Activity == agent.Idle })
	if done.StartedAt.Before(*x.ResetsAt) || done.SessionRef != x.SessionRef || done.RequestedBy != x.RequestedBy {
		t.Errorf("it went on as %+v", done)
	}
	s.call("POST", "/api/executions/"+child.ID+"/message", map[string]any{"text": "limit 1s"}, nil)
	s.wait(child.ID)
	s.wait(s.demo("offer", "limit 1s").ID)
	if n := s.total(); n != 3 {
		t.Errorf("there are %d executions: more was resumed than may be", n)
	}
	parked := s.childOf(s.wait(s.demo("limit", "limit 1h").ID))
	var e *callError
	if err := s.try("POST", "/api/executions", map[string]any{"parentId": parked.ParentID, "resume": true, "text": "now"}, nil); !errors.As(err, &e) || !strings.Contains(e.Text, "parked as") {
		t.Errorf("resumed by hand while parked: %v", err)
	}
	s.call("POST", "/api/executions/"+parked.ID+"/cancel", nil, nil)
	if got := s.wait(parked.ID); got.Status != engine.Cancelled || got.StartedAt != nil {
		t.Errorf("cancelled while parked: %+v", got)
	}
}

// childOf waits for the one execution that follows x.
func (s *service) childOf(x engine.Execution) engine.Execution {
	s.Helper()
	var child engine.Execution
	s.eventually("a run follows", func() bool {
		var list []engine.Execution
		if s.try("GET", "/api/executions?taskId="+x.TaskID, nil, &list) != nil || len(list) != 2 {
			return false
		}
		child = list[0]
		return child.ParentID == x.ID
	})
	return child
}

func (s *service) total() int {
	s.Helper()
	var list []engine.Execution
	s.call("GET", "/api/executions", nil, &list)
	return len(list)
}

func TestClock(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.Local)
	for want, at := range map[string]time.Time{"14:30": now.Add(150 * time.Minute), "Nov 22 00:00": now.Add(12 * time.Hour)} {
		if got := clock(at, now); got != want {
			t.Errorf("%s is %q, want %q", at, got, want)
		}
	}
}
