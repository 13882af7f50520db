//go:build conformance

package claude_test

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/threadmill/threadmill/adapters/adaptertest"
	"github.com/threadmill/threadmill/adapters/claude"
	"github.com/threadmill/threadmill/adapters/claude/fakeapi"
	"github.com/threadmill/threadmill/engine/agent"
)

// TestRealCLI runs the suite of all adapters against real versions of the CLI, which
// CLAUDE_CONFORMANCE_BINARIES lists, separated as PATH is.
func TestRealCLI(t *testing.T) {
	list := filepath.SplitList(os.Getenv("CLAUDE_CONFORMANCE_BINARIES"))
	if len(list) == 0 {
		t.Fatal("CLAUDE_CONFORMANCE_BINARIES names no CLI: run `make conformance`")
	}
	for _, binary := range list {
		found := claude.New().Check(t.Context(), agent.Job{Argv: []string{binary}, Env: []string{"PATH=" + os.Getenv("PATH")}})
		t.Run(found.Version, func(t *testing.T) { conform(t, binary) })
	}
}

func conform(t *testing.T, binary string) {
	t.Helper()
	api := httptest.NewServer(&fakeapi.Server{})
	defer api.Close()
	home := t.TempDir()
	job := func(t *testing.T) agent.Job {
		t.Helper()
		dir := filepath.Join(home, "work")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		return agent.Job{
			ExecutionID: t.Name(), Argv: []string{binary}, Dir: dir, Permission: "default",
			Options: map[string]any{"allowed_tools": []string{"Bash(sleep *)"}},
			Env: []string{
				"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + home, "ANTHROPIC_BASE_URL=" + api.URL,
				"ANTHROPIC_API_KEY=sk-ant-test", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
			},
		}
	}
	adaptertest.Run(t, adaptertest.Subject{
		Adapter: claude.New(), Job: job,
		Answer:   ask("[do say hello]", "hello"),
		Stream:   ask("[do trickle 5 10]", "word5"),
		Tool:     ask("[do bash echo it works]", "it works"),
		BadTool:  ask("[do bash cat no-such-file]", "No such file"),
		Think:    ask("[do think hard]", "hard"),
		Usage:    ask("[do say hello]", ""),
		Long:     ask("[do steps 1000]", "Using Bash."),
		FollowUp: ask("[do say second]", "second"),
		Approval: adaptertest.Approval{
			Prompt: "[do bash touch made && echo allowed]", Allowed: "Result: allowed", Denied: "not today",
			Modified: json.RawMessage(`{"command":"touch other && echo changed"}`), Changed: "Result: changed",
		},
		Question: adaptertest.Question{Prompt: "[do ask Which?|Red|Blue]", Answer: "Blue", Want: "Blue"},
		Memory:   adaptertest.Memory{Tell: "[do say heron] [do trickle 5 100]", Ask: "[do recall]", Want: "You said: heron"},
		Ends: []adaptertest.End{
			{Name: "bad request", Case: ask("[do error 401]", ""), Reason: agent.ReasonAuth, Message: "claude /login"},
		},
		Noise: noise(),
	})
}
