package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/threadmill/threadmill/cmd/threadmill/config"
	"github.com/threadmill/threadmill/templates/strictyaml"
)

func asProblems(err error, ps *strictyaml.Problems) bool { return errors.As(err, ps) }

// repository returns a configuration with an agent in a directory that has that
// .threadmill.yaml.
func repository(t *testing.T, text string) (*config.Config, string) {
	t.Helper()
	dir := t.TempDir()
	put(t, filepath.Join(dir, ".threadmill.yaml"), text)
	return load(t, `agents:
  other: {adapter: demo}
  claude:
    adapter: claude
    working_dir: `+dir+`
    max_concurrent: 3
    timeout: 1h
    permission_mode: acceptEdits
    env_allowlist: [A, B]
    allowed_tools: [Read, Edit]
    disallowed_tools: [Bash]
    budget: {per_run_usd: 5}
`), dir
}

func TestNarrow(t *testing.T) {
	t.Parallel()
	c, _ := repository(t, `agents:
  claude:
    max_concurrent: 1
    timeout: 30m
    idle_timeout: 0s
    approval_timeout: 1m
    max_output_bytes: 1000
    max_turns: 9
    permission_mode: plan
    env_allowlist: [B]
    allowed_tools: []
    disallowed_tools: [Web, Bash]
    budget: {per_run_usd: 1, per_run_tokens: 3, per_user_day_usd: 2, per_day_usd: 4}
  nobody: {enabled: false}
`)
	narrowed, problems := c.Narrow()
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	want := c.Agents["claude"]
	want.MaxConcurrent, want.Timeout, want.IdleTimeout, want.ApprovalTimeout = 1, 30*time.Minute, 0, time.Minute
	want.MaxOutputBytes, want.MaxTurns, want.PermissionMode = 1000, 9, "plan"
	want.EnvAllowlist, want.AllowedTools, want.DisallowedTools = []string{"B"}, []string{}, []string{"Bash", "Web"}
	want.Budget = config.Budget{PerRunUSD: 1, PerRunTokens: 3, PerUserDayUSD: 2, PerDayUSD: 4}
	if diff := cmp.Diff(want, narrowed.Agents["claude"]); diff != "" {
		t.Error(diff)
	}
	if c.Agents["claude"].MaxConcurrent != 3 {
		t.Error("the configuration itself was changed")
	}
	if diff := cmp.Diff(c.Agents["other"], narrowed.Agents["other"]); diff != "" {
		t.Error(diff)
	}
}

func TestNarrowDisables(t *testing.T) {
	t.Parallel()
	c, _ := repository(t, "agents: {claude: {enabled: false}}\n")
	narrowed, problems := c.Narrow()
	if len(problems) > 0 || narrowed.Agents["claude"].Enabled || !narrowed.Agents["other"].Enabled {
		t.Errorf("%v, %+v", problems, narrowed.Agents)
	}
}

// TestWidening: a file that would widen anything, or is wrong, disables the agent and
// nothing else.
func TestWidening(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"max_concurrent: 4":                      "max_concurrent: would widen what the service allows: it is above the service's limit",
		"max_concurrent: 0":                      "0 means no limit",
		"max_concurrent: -1":                     "it is negative",
		"timeout: 2h":                            "it is above",
		"timeout: 0":                             "0 means no limit",
		"approval_timeout: 0s":                   "0 means no limit",
		"idle_timeout: 11m":                      "not between 0 and the service's",
		"max_output_bytes: 9999999999":           "it is above",
		"permission_mode: bypassPermissions":     "possible are plan, dontAsk, default, acceptEdits",
		"permission_mode: unheard":               "possible are",
		"env_allowlist: [A, HOME_TOKEN]":         "not in the service's list",
		"allowed_tools: [Bash]":                  "not in the service's list",
		"budget: {per_run_usd: 6}":               "it is above",
		"binary: ./evil":                         "agents.claude.binary: is not a known key",
		"args: [--dangerously-skip-permissions]": "is not a known key",
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			c, dir := repository(t, "agents:\n  claude:\n    "+text+"\n")
			narrowed, problems := c.Narrow()
			if narrowed.Agents["claude"].Enabled || !narrowed.Agents["other"].Enabled {
				t.Errorf("enabled: %+v", narrowed.Agents)
			}
			if len(problems) != 1 || !strings.HasPrefix(problems.Error(), dir+"/.threadmill.yaml:3:") || !strings.Contains(problems.Error(), want) {
				t.Errorf("got %v, want %q", problems, want)
			}
		})
	}
}

// TestNarrowingLink: a link would let a repository make the service read any file.
func TestNarrowingLink(t *testing.T) {
	t.Parallel()
	c, dir := repository(t, "")
	path := filepath.Join(dir, ".threadmill.yaml")
	if err := errors.Join(os.Remove(path), os.Symlink("/etc/passwd", path)); err != nil {
		t.Fatal(err)
	}
	narrowed, problems := c.Narrow()
	if narrowed.Agents["claude"].Enabled || !strings.Contains(problems.Error(), "must be an ordinary file") {
		t.Errorf("%v", problems)
	}
}
