package web_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/threadmill/threadmill/bot/web/api"
	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/rundir"
)

func TestAnExecutionFromItsStartToItsEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	x, run := r.start(t, "chat", "hello")
	d, err := r.client.Get(t.Context(), "1")
	if err != nil {
		t.Fatal(err)
	}
	if d.ID != x.ID || d.Agent == nil || d.Agent.ID != "robot" || d.Capability == nil || d.Capability.ID != "chat" || d.RequestedBy != "web" {
		t.Errorf("detail is %+v", d)
	}
	if d.Agent.Options != nil {
		t.Error("the adapter's options, which may hold secrets, were shown")
	}
	sent, err := r.client.Send(t.Context(), x.ID, api.MessageRequest{ID: "m1", Text: "more"})
	if err != nil || !sent.Sent || sent.ID != "m1" {
		t.Errorf("sent %+v, %v", sent, err)
	}
	if _, err := r.client.Interrupt(t.Context(), x.ID); err != nil {
		t.Error(err)
	}
	run.end(t, 0)
	if got := r.await(t, x.ID, engine.Status.Ended); got.Status != engine.Succeeded || *got.ExitCode != 0 {
		t.Errorf("it ended as %+v", got)
	}
	commands, err := r.client.Commands(t.Context(), x.ID)
	if err != nil || len(commands) != 2 || commands[0].ID != "m1" || commands[1].Op != rundir.OpInterrupt {
		t.Errorf("commands %+v, %v", commands, err)
	}
}

func TestAnIdempotencyKeyMakesOneExecution(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	body := `{"capability":"chat","text":"hi","idempotencyKey":"k"}`
	first := r.do(t, request{method: "POST", path: "/api/executions", body: body})
	again := r.do(t, request{method: "POST", path: "/api/executions", body: body})
	if first.status != 201 || again.status != 200 {
		t.Errorf("answers %d and %d", first.status, again.status)
	}
	if loc := first.header.Get("Location"); loc == "" || r.do(t, request{path: loc}).status != 200 {
		t.Errorf("location %q does not lead there", loc)
	}
	if _, total, err := r.client.List(t.Context(), engine.Filter{}); err != nil || total != 1 {
		t.Errorf("%d executions, %v", total, err)
	}
}

func TestLargeNumbersInArgumentsStayWhatTheyAre(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	a := r.do(t, request{method: "POST", path: "/api/executions", body: `{"capability":"chat","text":"x","args":{"n":9007199254740993}}`})
	if a.status != 201 {
		t.Fatal(a.body)
	}
	if want := `"n":9007199254740993`; !strings.Contains(a.body, want) {
		t.Errorf("%s lacks %s", a.body, want)
	}
}

func TestListsAreFilteredAndPaged(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for range 3 {
		_, run := r.start(t, "chat", "x")
		run.end(t, 0)
	}
	last, _ := r.start(t, "solo", "y")
	r.await(t, "3", engine.Status.Ended)
	for name, c := range map[string]struct {
		filter engine.Filter
		want   []int64
		total  int
	}{
		"all":     {engine.Filter{}, []int64{4, 3, 2, 1}, 4},
		"page":    {engine.Filter{Page: 2, PageSize: 3}, []int64{1}, 4},
		"agent":   {engine.Filter{AgentID: "busy"}, []int64{4}, 1},
		"task":    {engine.Filter{TaskID: last.TaskID}, []int64{4}, 1},
		"ended":   {engine.Filter{Statuses: []engine.Status{engine.Succeeded, engine.Failed}, AgentID: "robot", PageSize: 2}, []int64{3, 2}, 3},
		"nothing": {engine.Filter{AgentID: "nobody"}, nil, 0},
	} {
		if name == "ended" {
			r.await(t, "1", engine.Status.Ended)
			r.await(t, "2", engine.Status.Ended)
		}
		list, total, err := r.client.List(t.Context(), c.filter)
		if err != nil {
			t.Fatal(name, err)
		}
		var got []int64
		for _, x := range list {
			got = append(got, x.Number)
		}
		if diff := cmp.Diff(c.want, got); diff != "" || total != c.total {
			t.Errorf("%s: total %d, %s", name, total, diff)
		}
	}
}

func TestARefusedMessageIsAConflict(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	x, run := r.start(t, "chat", "hello")
	run.answer(rundir.OpMessage, rundir.Reply{Code: rundir.CodeBusy, Error: "a turn is running"})
	_, err := r.client.Send(t.Context(), x.ID, api.MessageRequest{Text: "now", OnBusy: engine.BusyReject})
	if engine.CodeOf(err) != engine.CodeConflict || !strings.Contains(err.Error(), "a turn is running") {
		t.Errorf("got %v", err)
	}
}

func TestCancelRetryAndFork(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	x, _ := r.start(t, "chat", "hello")
	if _, err := r.client.Cancel(t.Context(), x.ID, false); err != nil {
		t.Fatal(err)
	}
	r.await(t, x.ID, engine.Status.Ended)
	if _, err := r.client.Cancel(t.Context(), x.ID, true); engine.CodeOf(err) != engine.CodeConflict {
		t.Errorf("cancelled twice: %v", err)
	}
	again, err := r.client.Retry(t.Context(), x.ID)
	if err != nil || again.ParentID != x.ID {
		t.Errorf("retried as %+v, %v", again, err)
	}
	fork, err := r.client.Fork(t.Context(), x.ID, "and then")
	if err != nil || !fork.Fork || fork.SessionRef != "session-1" || fork.Prompt != "and then" {
		t.Errorf("forked as %+v, %v", fork, err)
	}
}

func TestATaskIsRunAndStopped(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	task, err := r.client.CreateTask(t.Context(), api.TaskRequest{Title: "Do it", CapabilityID: "chat"})
	if err != nil {
		t.Fatal(err)
	}
	started, err := r.client.RunTask(t.Context(), task.ID, api.RunRequest{Text: "go"})
	if err != nil || started.Status != engine.Running || started.Pid != 4242 || started.Number != 1 {
		t.Errorf("started %+v, %v", started, err)
	}
	a := r.do(t, request{method: "POST", path: "/api/tasks/" + task.ID + "/run"})
	a.wantFailure(t, 409, engine.CodeConflict, "An agent is already running")
	stopping, err := r.client.StopTask(t.Context(), task.ID)
	if err != nil || stopping.Status != "stopping" {
		t.Errorf("stopping %+v, %v", stopping, err)
	}
	r.await(t, "1", engine.Status.Ended)
	a = r.do(t, request{method: "POST", path: "/api/tasks/" + task.ID + "/stop"})
	a.wantFailure(t, 404, engine.CodeNotFound, "No running agent found")
}

func TestAnApprovalIsDecidedOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	x, run := r.start(t, "chat", "hello")
	run.ask(t, "ask-1")
	open := r.waiting(t, "1")
	if open.Risk != engine.RiskMedium {
		t.Errorf("the risk is %q", open.Risk)
	}
	got, err := r.client.Decide(t.Context(), open.ID, api.DecisionRequest{Decision: api.Allow, ModifiedInput: []byte(`{"command":"ls -l"}`)})
	if err != nil || got.Decision == nil || !got.Decision.Allow || got.Decision.By != "web" || got.ExecutionID != x.ID {
		t.Errorf("decided %+v, %v", got, err)
	}
	if _, err := r.client.Decide(t.Context(), open.ID, api.DecisionRequest{Decision: api.Deny}); engine.CodeOf(err) != engine.CodeConflict {
		t.Errorf("decided twice: %v", err)
	}
	all, err := r.client.Approvals(t.Context(), engine.ApprovalFilter{})
	if err != nil || len(all) != 1 || all[0].State != agent.AskDecided {
		t.Errorf("all: %+v, %v", all, err)
	}
}
