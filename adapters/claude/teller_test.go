package claude

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/threadmill/threadmill/engine/agent"
)

// script is a teller that is fed line by line.
type script struct {
	t    *testing.T
	told *teller
	all  []agent.Entry
}

func newScript(t *testing.T, firstMessage string) *script {
	t.Helper()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := &script{t: t, told: newTeller("/repo", func() time.Time { return now })}
	s.all = s.told.started(1, firstMessage)
	return s
}

// line feeds a line and returns what was told.
func (s *script) line(format string, args ...any) []agent.Entry {
	s.t.Helper()
	event, err := parse(fmt.Appendf(nil, format, args...))
	if err != nil || event == nil {
		s.t.Fatalf("the line makes no event (%v)", err)
	}
	told := s.told.take(event)
	s.all = append(s.all, told...)
	return told
}

func (s *script) state(word string) {
	s.t.Helper()
	s.line(`{"type":"system","subtype":"session_state_changed","state":%q}`, word)
}

// activities lists what was told of them.
func (s *script) activities() (list []agent.Activity) {
	for _, e := range s.all {
		if e.Status != nil && e.Status.Activity != "" {
			list = append(list, e.Status.Activity)
		}
	}
	return list
}

func (s *script) wants(wait time.Duration, list ...agent.Activity) {
	s.t.Helper()
	if diff := cmp.Diff(list, s.activities()); diff != "" {
		s.t.Errorf("activities (-want +got):\n%s", diff)
	}
	if got := s.told.turn.wait(); got != wait {
		s.t.Errorf("it waits %s, want %s", got, wait)
	}
}

// A slow start is no end of a turn: nothing but the CLI's word ends the first one.
func TestTurnBegins(t *testing.T) {
	t.Parallel()
	s := newScript(t, "u1")
	s.wants(0, agent.Working)
	s.state("running")
	s.line(`{"type":"command_lifecycle","command_uuid":"u1","state":"started"}`)
	s.wants(0, agent.Working)
	s.state("idle")
	s.wants(0, agent.Working, agent.Idle)
}

// A message that was written in a turn's last moment is not forgotten by its end.
func TestTurnMessageInTheLastMoment(t *testing.T) {
	t.Parallel()
	s := newScript(t, "u1")
	s.state("running")
	s.told.turn.sent("u2")
	s.state("idle")
	s.wants(settleWait, agent.Working)
	s.state("running")
	s.state("idle")
	s.wants(0, agent.Working, agent.Idle)
}

// One that is never taken does not keep the agent working for ever.
func TestTurnMessageLost(t *testing.T) {
	t.Parallel()
	s := newScript(t, "u1")
	s.state("running")
	s.told.turn.sent("u2")
	s.state("idle")
	s.all = append(s.all, s.told.elapsed()...)
	s.wants(0, agent.Working, agent.Idle)
}

// A message folded into a running turn has no result of its own.
func TestTurnMessageFolded(t *testing.T) {
	t.Parallel()
	for _, sign := range []string{`{"type":"command_lifecycle","command_uuid":"u2","state":"started"}`, `{"type":"user","isReplay":true,"uuid":"u2"}`} {
		s := newScript(t, "u1")
		s.state("running")
		s.told.turn.sent("u2")
		s.line("%s", sign)
		s.line(`{"type":"result","subtype":"success"}`)
		s.state("idle")
		s.wants(0, agent.Working, agent.Idle)
	}
}

// A background task keeps the agent working, then its end begins a turn by itself.
func TestTurnBackground(t *testing.T) {
	t.Parallel()
	s := newScript(t, "u1")
	s.state("running")
	s.line(`{"type":"system","subtype":"background_tasks_changed","tasks":[{"task_id":"b1"}]}`)
	s.state("idle")
	s.wants(backgroundWait, agent.Working)
	s.line(`{"type":"system","subtype":"task_notification","task_id":"b1","status":"completed","summary":"done"}`)
	s.line(`{"type":"system","subtype":"background_tasks_changed","tasks":[]}`)
	s.wants(settleWait, agent.Working)
	s.state("running")
	s.state("idle")
	s.wants(0, agent.Working, agent.Idle)
}

// A server that was started for good lets messages in again after a while.
func TestTurnBackgroundForGood(t *testing.T) {
	t.Parallel()
	s := newScript(t, "")
	s.state("running")
	s.line(`{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t"}]},"tool_use_result":{"backgroundTaskId":"b1"}}`)
	s.state("idle")
	s.wants(backgroundWait, agent.Idle, agent.Working)
	s.all = append(s.all, s.told.elapsed()...)
	s.wants(0, agent.Idle, agent.Working, agent.Idle)
}

func TestRetriesThatWillNotHelp(t *testing.T) {
	t.Parallel()
	s := newScript(t, "u1")
	retry := func(attempt, status, delay int) []agent.Entry {
		return s.line(`{"type":"system","subtype":"api_retry","attempt":%d,"max_retries":10,"retry_delay_ms":%d,"error_status":%d,"error":"x"}`, attempt, delay, status)
	}
	if told := retry(1, 401, 500); told[0].Kind != agent.KindSystem || s.told.failed != nil {
		t.Errorf("the first refusal tells %+v", told)
	}
	retry(5, 529, 500)
	if s.told.failed != nil {
		t.Errorf("an overloaded API ends the session: %+v", s.told.failed)
	}
	told := retry(6, 429, 3_600_000)
	if want := time.Date(2026, 1, 2, 4, 4, 5, 0, time.UTC); told[0].Failure.ResetsAt == nil || !told[0].Failure.ResetsAt.Equal(want) {
		t.Errorf("an hour to wait tells %+v", told[0])
	}
	s.line(`{"type":"result","subtype":"error_during_execution","is_error":true,"terminal_reason":"aborted_streaming"}`)
	if f := s.told.failed; f == nil || f.Reason != agent.ReasonAgentLimit {
		t.Errorf("the end of the turn forgets why: %+v", f)
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		line   string
		reason agent.Reason
		final  bool
		says   string
	}{
		{`{"is_error":true,"api_error_status":403,"result":"no"}`, agent.ReasonAuth, true, "claude /login"},
		{`{"is_error":true,"api_error_status":429,"result":"slow down"}`, agent.ReasonAgentLimit, true, "slow down"},
		{`{"is_error":true,"api_error_status":500,"result":"oops"}`, agent.ReasonAgentError, false, "oops"},
		{`{"is_error":true,"subtype":"error_max_turns","errors":["Reached maximum number of turns (1)"]}`, agent.ReasonAgentError, false, "max_turns"},
		{`{"is_error":true,"subtype":"error_max_budget_usd","errors":["over"]}`, agent.ReasonBudget, true, "over"},
		{`{"is_error":true,"errors":["Session abc No conversation found"]}`, agent.ReasonNotFound, true, "start a new conversation"},
		{`{"is_error":true,"result":"Not logged in · Please run /login"}`, agent.ReasonAuth, true, "claude /login"},
		{`{"is_error":true,"errors":["x cannot be used with root/sudo privileges"]}`, agent.ReasonAgentError, true, "IS_SANDBOX"},
		{`{"is_error":true,"errors":["bad file"],"startup_failure_reason":"config_file_invalid"}`, agent.ReasonAgentError, true, "bad file"},
		{`{"is_error":true,"errors":["[ede_diagnostic] secret"]}`, agent.ReasonAgentError, false, "does not say why"},
	} {
		s := newScript(t, "u1")
		s.line(`{"type":"result",%s`, strings.TrimPrefix(c.line, "{"))
		f := s.told.failed
		if f == nil || f.Reason != c.reason || f.final != c.final || !strings.Contains(f.text, c.says) {
			t.Errorf("%s: %+v", c.line, f)
		}
	}
}

func TestToolResults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, input, result, structured string
		bad                             bool
		want                            agent.Tool
	}{
		{
			"Bash", `{"command":"make"}`, "Exit code 2\nboom", `"Error: Exit code 2"`, true,
			agent.Tool{Action: agent.ActionCommandRun, Status: agent.ToolFailed, Command: "make", ExitCode: new(2), Result: "Exit code 2\nboom"},
		},
		{
			"Bash", `{"command":"make"}`, "denied", `"x"`, true,
			agent.Tool{Action: agent.ActionCommandRun, Status: agent.ToolFailed, Command: "make", Result: "denied"},
		},
		{
			"Edit", `{"file_path":"/repo/a/b.go"}`, "ok", `{"filePath":"/repo/a/b.go","structuredPatch":[{"oldStart":1,"oldLines":1,"newStart":1,"newLines":1,"lines":["-a","+b"]}]}`, false,
			agent.Tool{Action: agent.ActionFileEdit, Status: agent.ToolSuccess, Path: "a/b.go", Result: "ok", Diff: "--- a/a/b.go\n+++ b/a/b.go\n@@ -1 +1 @@\n-a\n+b\n"},
		},
		{"Read", `{"file_path":"/etc/passwd"}`, "root", `{}`, false, agent.Tool{Action: agent.ActionFileRead, Status: agent.ToolSuccess, Path: "/etc/passwd", Result: "root"}},
		{"NotebookEdit", `{"notebook_path":"/repo/n.ipynb"}`, "", `{}`, false, agent.Tool{Action: agent.ActionFileEdit, Status: agent.ToolSuccess, Path: "n.ipynb"}},
		{"Grep", `{"pattern":"x","path":"/repo/a"}`, "1", `{}`, false, agent.Tool{Action: agent.ActionSearch, Status: agent.ToolSuccess, Result: "1"}},
		{"mcp__x__y", `[]`, "1", `7`, false, agent.Tool{Action: agent.ActionTool, Status: agent.ToolSuccess, Result: "1"}},
	} {
		s := newScript(t, "u1")
		s.line(`{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t","name":%q,"input":%s}]}}`, c.name, c.input)
		told := s.line(`{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":%q,"is_error":%t}]},"tool_use_result":%s}`, c.result, c.bad, c.structured)
		c.want.Name, c.want.Input = c.name, json.RawMessage(c.input)
		if diff := cmp.Diff(&c.want, told[0].Tool); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// A tool's arguments can be a whole file: an entry has the beginning of it.
func TestLongInputIsCut(t *testing.T) {
	t.Parallel()
	long := fmt.Sprintf(`{"file_path":"a","content":%q,"list":["x"]}`, strings.Repeat("ä", maxInput))
	short := shorten(json.RawMessage(long))
	if len(short) > 2*maxInputText || !json.Valid(short) || !strings.Contains(string(short), `"list":["x"]`) {
		t.Errorf("it is cut to %d bytes", len(short))
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	open := func(tool, input string) *ask {
		a := asks{}
		var e evAsk
		e.RequestID, e.Request.Subtype, e.Request.Tool, e.Request.Input = "r", canUseTool, tool, json.RawMessage(input)
		a.opened(&e)
		return a["r"]
	}
	bash := open("Bash", `{"command":"ls"}`)
	question := open(toolQuestion, `{"questions":[{"question":"Q?","options":[{"label":"A"}]}],"extra":1}`)
	for _, c := range []struct {
		x    *ask
		d    agent.Decision
		want string
	}{
		{bash, agent.Decision{Allow: true}, `{"behavior":"allow","updatedInput":{"command":"ls"}}`},
		{bash, agent.Decision{Allow: true, ModifiedInput: json.RawMessage(`{"command":"pwd"}`)}, `{"behavior":"allow","updatedInput":{"command":"pwd"}}`},
		{bash, agent.Decision{}, `{"behavior":"deny","message":"The user does not want this."}`},
		{bash, agent.Decision{TimedOut: true}, `{"behavior":"deny","message":"Nobody answered in time."}`},
		{bash, agent.Decision{Message: "no", Interrupt: true}, `{"behavior":"deny","message":"no","interrupt":true}`},
		{question, agent.Decision{Answers: map[string]string{"Q?": "A"}}, `{"behavior":"allow","updatedInput":{"answers":{"Q?":"A"},"extra":1,"questions":[{"question":"Q?","options":[{"label":"A"}]}]}}`},
		{question, agent.Decision{Allow: true}, `{"behavior":"deny","message":"The user does not want this."}`},
		{open(toolQuestion, `{"questions":[]}`), agent.Decision{Allow: true}, `{"behavior":"allow","updatedInput":{"questions":[]}}`},
	} {
		v, err := c.x.answer(c.d)
		got, _ := json.Marshal(v)
		if err != nil || string(got) != c.want {
			t.Errorf("%+v is answered %s (%v), want %s", c.d, got, err, c.want)
		}
	}
	huge := open("Write", fmt.Sprintf(`{"file_path":"f","content":%q}`, strings.Repeat("x", maxAskInput)))
	if len(huge.entry.Ask.Input) > maxInput || !huge.entry.Ask.Shortened {
		t.Errorf("huge arguments are shown in %d bytes", len(huge.entry.Ask.Input))
	}
	if v, err := huge.answer(agent.Decision{Allow: true}); err != nil || len(v.Input) < maxAskInput {
		t.Errorf("huge arguments are not allowed as they are (%v)", err)
	}
	if _, err := huge.answer(agent.Decision{Allow: true, ModifiedInput: json.RawMessage(`{}`)}); err == nil {
		t.Error("arguments that nobody saw whole are changed")
	}
	for _, bad := range []string{"[]", "{", `"x"`, "null"} {
		if v, err := bash.answer(agent.Decision{Allow: true, ModifiedInput: json.RawMessage(bad)}); err == nil {
			t.Errorf("input %s is taken: %+v", bad, v)
		}
	}
	if plan := open(toolPlan, `{"plan":"# Do it"}`); plan.entry.Content != "# Do it" || plan.entry.Kind != agent.KindApproval {
		t.Errorf("a plan is shown as %+v", plan.entry)
	}
}
