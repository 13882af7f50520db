package config_test

import (
	"strings"
	"testing"
)

// TestApprovalPolicies holds what is said about permissions against the words there are.
func TestApprovalPolicies(t *testing.T) {
	t.Parallel()
	modes := []string{"default", "acceptEdits", "plan", "dontAsk", "bypassPermissions"}
	for _, mode := range modes {
		c := load(t, "agents: {a: {adapter: demo, permission_mode: "+mode+", on_approval_timeout: wait}}")
		if a := c.EngineAgents()[0]; a.Permission != mode || a.OnTimeout != "wait" {
			t.Errorf("%s became %q and %q", mode, a.Permission, a.OnTimeout)
		}
	}
	got := strings.Join(refused(t, `agents:
  a: {adapter: demo, permission_mode: yolo, on_approval_timeout: allow}
  b: {adapter: demo, on_approval_timeout: remind, approval_timeout: 0s}
`), "\n")
	for _, want := range []string{
		"2:39: agents.a.permission_mode: must be one of ",
		"2:66: agents.a.on_approval_timeout: must be one of deny, wait, remind",
		"agents.b.on_approval_timeout: remind needs an approval_timeout",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s does not say %q", got, want)
		}
	}
}
