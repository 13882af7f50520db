package command_test

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/threadmill/threadmill/adapters/adaptertest"
	"github.com/threadmill/threadmill/adapters/command"
	"github.com/threadmill/threadmill/engine/agent"
)

func TestMain(m *testing.M) { os.Exit(adaptertest.Main(m, nil)) }

func job(t *testing.T) agent.Job {
	t.Helper()
	return agent.Job{
		ExecutionID: "test", Argv: []string{"true"}, Dir: t.TempDir(),
		Env: []string{"PATH=" + os.Getenv("PATH")},
	}
}

func sh(script, want string) adaptertest.Case {
	return adaptertest.Case{Argv: []string{"sh", "-c", script}, Want: want}
}

func TestConformance(t *testing.T) {
	adaptertest.Run(t, adaptertest.Subject{
		Adapter: command.New(), Job: job,
		Answer:  sh("echo hello; echo there >&2", "[stderr] there"),
		Tool:    sh("echo hello", "[stdout] hello"),
		BadTool: sh("echo oops >&2; exit 3", "oops"),
		Long:    sh("echo begun; exec sleep 600", "begun"),
		Ends: []adaptertest.End{
			{Name: "exit code", Case: sh("echo oops >&2; exit 3", "oops"), Reason: agent.ReasonExitCode, ExitCode: 3, Message: "exited with code 3: oops"},
			{Name: "signal", Case: sh("kill -SEGV $$", ""), Reason: agent.ReasonExitCode, Signal: true, Message: "SIGSEGV"},
		},
		Noise: adaptertest.Noise{Lines: []string{"survived"}, Want: "[stdout] survived"},
	})
}

// TestEntries holds the whole of what a run tells.
func TestEntries(t *testing.T) {
	t.Parallel()
	rt := adaptertest.NewRuntime(t)
	j := job(t)
	j.Argv = []string{"sh", "-c", "echo 'last words' >&2; exit 7"}
	s, err := command.New().Start(t.Context(), j, rt)
	if err != nil {
		t.Fatal(err)
	}
	var got []agent.Entry
	for e := range s.Entries() {
		if e.Status != nil {
			e.Status.Pid = 0 // it differs
		}
		got = append(got, e)
	}
	code := 7
	tool := agent.Tool{
		Name: "sh", Action: agent.ActionCommandRun, Command: `sh -c 'echo '\''last words'\'' >&2; exit 7'`,
		Input: []byte(`{"argv":["sh","-c","echo 'last words' \u003e\u00262; exit 7"]}`),
	}
	created, running, failed := tool, tool, tool
	created.Status, running.Status, failed.Status = agent.ToolCreated, agent.ToolRunning, agent.ToolFailed
	failed.ExitCode, failed.Result = &code, "exited with code 7: last words"
	want := []agent.Entry{
		{Kind: agent.KindStatus, Status: &agent.Status{Activity: agent.Working}},
		{Kind: agent.KindToolUse, ID: "command", Tool: &created},
		{Kind: agent.KindToolUse, ID: "command", Tool: &running},
		{Kind: agent.KindToolUse, ID: "command", Tool: &failed},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	outcome := agent.Outcome{
		Reason: agent.ReasonExitCode, Message: failed.Result, ExitCode: &code,
		Failure: &agent.Failure{Reason: agent.ReasonExitCode},
	}
	if diff := cmp.Diff(outcome, s.Outcome()); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
}

// TestCheckWithoutProgram is an agent whose capabilities bring their own programs.
func TestCheckWithoutProgram(t *testing.T) {
	t.Parallel()
	if got := command.New().Check(t.Context(), agent.Job{}); !got.OK {
		t.Errorf("Check = %+v, want OK", got)
	}
}

// TestUnread ends although nobody reads the entries.
func TestUnread(t *testing.T) {
	t.Parallel()
	rt := adaptertest.NewRuntime(t)
	if _, err := command.New().Start(t.Context(), job(t), rt); err != nil {
		t.Fatal(err)
	}
}
