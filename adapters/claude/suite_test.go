package claude_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/threadmill/threadmill/adapters/adaptertest"
	"github.com/threadmill/threadmill/adapters/claude"
	"github.com/threadmill/threadmill/engine/agent"
)

func ask(prompt, want string) adaptertest.Case { return adaptertest.Case{Prompt: prompt, Want: want} }

// jobs returns a maker of jobs for the fake CLI that share their sessions.
func jobs(t *testing.T, args ...string) func(*testing.T) agent.Job {
	t.Helper()
	home := t.TempDir()
	return func(t *testing.T) agent.Job {
		t.Helper()
		return agent.Job{
			ExecutionID: t.Name(), Argv: adaptertest.Self(t, fakeProgram, args...), Dir: t.TempDir(),
			Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home}, Permission: "default",
		}
	}
}

// The suite runs on what newer and older versions say.
func TestConformance(t *testing.T)    { adaptertest.Run(t, subject(jobs(t))) }
func TestConformanceOld(t *testing.T) { adaptertest.Run(t, subject(jobs(t, "old"))) }

func subject(job func(*testing.T) agent.Job) adaptertest.Subject {
	return adaptertest.Subject{
		Adapter: claude.New(), Job: job,
		Answer:   ask("say hello", "hello"),
		Stream:   ask("trickle one two three", "onetwothree"),
		Tool:     ask("tool it works", "it works"),
		BadTool:  ask("badtool oops", "oops"),
		Think:    ask("think hard", "hard"),
		Usage:    ask("say hello", ""),
		Long:     ask("long", "begun"),
		FollowUp: ask("say second", "second"),
		Approval: adaptertest.Approval{
			Prompt: "approve first", Allowed: "ran first", Denied: "not today",
			Modified: json.RawMessage(`{"command":"another"}`), Changed: "ran another",
		},
		Question: adaptertest.Question{Prompt: "ask Tea?", Answer: "yes", Want: "You answered: yes"},
		Memory:   adaptertest.Memory{Tell: "say heron", Ask: "recall", Want: "heron"},
		Ends: []adaptertest.End{
			{Name: "not signed in", Case: ask("error 401", ""), Reason: agent.ReasonAuth, Message: "claude /login"},
			{Name: "credentials refused again and again", Case: ask("retry", ""), Reason: agent.ReasonAuth, Message: "claude /login"},
			{Name: "limit", Case: ask("limit", "hit your limit"), Reason: agent.ReasonAgentLimit, Message: "limit", Resets: true},
			{Name: "crash", Case: ask("exit 7", ""), Reason: agent.ReasonAgentError, ExitCode: 7, Message: "these are the last words"},
			{Name: "end without a word", Case: ask("exit 0", ""), Reason: agent.ReasonAgentError, Message: "middle of a turn"},
		},
		Noise: noise(),
	}
}

func noise() adaptertest.Noise {
	return adaptertest.Noise{
		Lines: []string{
			`{"type":"result","subtype":"success","num_turns":"many"}`, `{"type":"result"}`, `{"type":"result"}`,
			`{"type":"control_request","request_id":"a","request":{"subtype":"can_use_tool"}}`,
			`{"type":"control_request","request_id":"b","request":{"subtype":"no_such"}}`,
			`{"type":"control_cancel_request","request_id":"never asked"}`, `{"type":"control_response","response":{"request_id":"x"}}`,
			`{"type":"system","subtype":"init","session_id":7}`, `{"type":"system","subtype":["init"]}`,
			`{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t","name":"Bash","input":[1]}]}}`,
			`{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":{}}]},"tool_use_result":7}`,
			`{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t"}]}}`,
			`{"type":"stream_event","event":{"type":"content_block_delta","index":9,"delta":{"text":"nowhere"}}}`,
			"{\"type\":\"assistant\",\"message\":{\"id\":\"m\",\"content\":[{\"type\":\"text\",\"text\":\"survived \xff\",\"unknown\":{\"a\":[1]}}]}}",
		},
		Want: "survived",
	}
}
