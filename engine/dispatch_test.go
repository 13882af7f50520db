package engine

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/threadmill/threadmill/engine/agent"
)

// queue makes executions from words like "a:queued", "b:running", "b:idle5" (idle for
// five minutes) and "a:cancelling"; their ids are their positions, from "0" on.
func queue(words string) []Execution {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	var out []Execution
	for i, w := range strings.Fields(words) {
		name, status, _ := strings.Cut(w, ":")
		x := Execution{ID: string(rune('0' + i)), AgentID: name, Status: Status(status)}
		if minutes, ok := strings.CutPrefix(status, "idle"); ok {
			since := now.Add(-time.Duration(minutes[0]-'0') * time.Minute)
			x.Status, x.Activity, x.IdleSince = Running, agent.Idle, &since
		}
		out = append(out, x)
	}
	return out
}

func TestPlan(t *testing.T) {
	t.Parallel()
	cat := Catalog{Agents: map[string]Agent{
		"a": {ID: "a", MaxConcurrent: 1}, "b": {ID: "b", MaxConcurrent: 2}, "c": {ID: "c"},
		"x": {ID: "x", MaxConcurrent: 1, OnBusy: BusyConcurrent},
	}, MaxConcurrent: 3}
	tests := []struct{ name, active, start, end string }{
		{"nothing to do", "a:running b:idle3", "", ""},
		{"first come first served up to the limit of all", "c:queued c:queued c:queued c:queued", "0 1 2", ""},
		{"an agent at its limit does not hold up others", "a:running a:queued b:queued", "2", ""},
		{"cancelling still holds its place", "a:cancelling a:queued", "", ""},
		{"an idle agent makes room for its own queue", "a:idle1 a:queued", "", "0"},
		{"another agent's idle one cannot help with the agent's limit", "b:idle1 a:running a:queued", "", ""},
		{"the longest idle goes first", "b:idle1 b:idle5 b:queued", "", "1"},
		{"an idle one of any agent makes room under the limit of all", "b:idle1 c:running c:running a:queued", "", "0"},
		{"each waiting one gets one to end, not all", "b:idle1 b:idle2 c:idle3 c:queued c:queued", "", "2 1"},
		{"concurrent ignores the agent's limit but not that of all", "x:running x:queued x:queued x:queued", "1 2", ""},
		{"an agent that is gone from the configuration has no limit; launching says so", "gone:queued", "0", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			start, end := plan(queue(tt.active), cat)
			if diff := cmp.Diff([]string{tt.start, tt.end}, []string{ids(start), ids(end)}); diff != "" {
				t.Errorf("start, end (-want +got):\n%s", diff)
			}
		})
	}
}

func ids(xs []Execution) string {
	var out []string
	for _, x := range xs {
		out = append(out, x.ID)
	}
	return strings.Join(out, " ")
}

func TestUnparked(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name  string
		after []time.Duration // of each queued one; 0: not parked
		due   string
		wait  time.Duration
	}{
		{"nothing", nil, "", lookAgain},
		{"nothing parked", []time.Duration{0, 0}, "0 1", lookAgain},
		{"one is due now", []time.Duration{-time.Second, time.Nanosecond}, "0", time.Nanosecond},
		{"a parked one keeps nobody waiting", []time.Duration{time.Hour, 0}, "1", lookAgain},
		{"the next one tells how long", []time.Duration{5 * time.Second, 3 * time.Second, 0}, "2", 3 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			all := queue(strings.Repeat("a:queued ", len(tt.after)))
			for i, d := range tt.after {
				if d != 0 {
					all[i].NotBefore = new(now.Add(d))
				}
			}
			due, wait := unparked(all, now)
			if ids(due) != tt.due || wait != tt.wait {
				t.Errorf("due %q in %v, want %q in %v", ids(due), wait, tt.due, tt.wait)
			}
		})
	}
}
