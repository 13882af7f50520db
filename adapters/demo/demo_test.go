package demo_test

import (
	"context"
	"encoding/json"
	"os"
	"testing"

	"github.com/threadmill/threadmill/adapters/adaptertest"
	"github.com/threadmill/threadmill/adapters/demo"
	"github.com/threadmill/threadmill/engine/agent"
)

const program = "demo-agent"

func TestMain(m *testing.M) {
	os.Exit(adaptertest.Main(m, map[string]func([]string) int{
		program: func(args []string) int {
			return demo.Main(context.Background(), args, os.Stdin, os.Stdout, os.Stderr)
		},
	}))
}

// jobs returns a maker of jobs that share their sessions.
func jobs(t *testing.T) func(*testing.T) agent.Job {
	t.Helper()
	state := t.TempDir()
	return func(t *testing.T) agent.Job {
		t.Helper()
		return agent.Job{
			ExecutionID: "test", Argv: adaptertest.Self(t, program), Dir: t.TempDir(),
			Env:     []string{"PATH=" + os.Getenv("PATH"), "SOMETHING=else"},
			Options: map[string]any{"state_dir": state},
		}
	}
}

func prompt(text, want string) adaptertest.Case { return adaptertest.Case{Prompt: text, Want: want} }

func TestConformance(t *testing.T) {
	adaptertest.Run(t, adaptertest.Subject{
		Adapter: demo.New(), Job: jobs(t),
		Answer:   prompt("say hello", "hello"),
		Stream:   prompt("lines 20", "line 20"),
		Tool:     prompt("tool echo 'a b'", "a b"),
		BadTool:  prompt("tool sh -c 'echo oops >&2; exit 3'", "oops"),
		Think:    prompt("think hard", "hard"),
		Usage:    prompt("usage 0.25 100; usage 0.25 100", ""),
		Long:     prompt("say begun; tool sleep 600; say never", "begun"),
		FollowUp: prompt("what now?", "You said: what now?"),
		Approval: adaptertest.Approval{
			Prompt: "approve echo allowed", Allowed: "allowed\n", Denied: "not today",
			Modified: json.RawMessage(`{"command":"echo changed"}`), Changed: "changed\n",
		},
		Question: adaptertest.Question{Prompt: "ask Tea? | yes | no", Answer: "yes", Want: "You answered: yes"},
		Memory:   adaptertest.Memory{Tell: "the word is heron", Ask: "recall", Want: "- the word is heron"},
		Ends: []adaptertest.End{
			{Name: "fail", Case: prompt("fail no luck", "no luck"), Reason: agent.ReasonAgentError, ExitCode: 1, Message: "no luck"},
			{Name: "limit", Case: prompt("limit 5m", "usage limit"), Reason: agent.ReasonAgentLimit, Message: "resets at", Resets: true},
			{Name: "crash", Case: prompt("say bye; crash", "bye"), Reason: agent.ReasonAgentError, Signal: true, Message: "SIGABRT"},
		},
		Noise: adaptertest.Noise{
			Lines: []string{
				`{"type":"turn","state":"done"}`, `{"type":"turn","state":"done"}`, `{"type":"turn","state":"started"}`,
				`{"type":"tool","id":"t","tool":{"name":"x","action":"tool","status":"running"}}`,
				`{"type":"tool","id":"t2","tool":{"name":"x","action":"tool","status":"no such"}}`,
				`{"type":"ask","id":"a"}`, `{"type":"withdraw","id":"never asked"}`, `{"type":"reply","req":77}`,
				"{\"type\":\"text\",\"id\":\"t\",\"text\":\"survived \xff\",\"unknown\":{\"a\":[1]}}",
			},
			Want: "survived",
		},
	})
}
