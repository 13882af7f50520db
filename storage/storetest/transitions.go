package storetest

import (
	"strings"
	"testing"
	"time"

	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/rundir"
)

func transitionTests() map[string]func(*testing.T, engine.Store) {
	return map[string]func(*testing.T, engine.Store){
		"the whole table":              wholeTable,
		"start":                        starts,
		"end with everything":          endsWithEverything,
		"zero fields change nothing":   zeroLeaves,
		"the conflict names the state": namesState,
		"an end settles what is open":  endSettles,
		"unsent commands":              unsent,
		"command and audit with it":    commandAndAudit,
		"all or nothing":               allOrNothing,
	}
}

// pathTo is how an execution gets from queued to a status.
func pathTo(s engine.Status) []engine.Status {
	switch s {
	case engine.Queued:
		return nil
	case engine.Running, engine.Cancelling:
		return []engine.Status{s}
	case engine.Cancelled:
		return []engine.Status{engine.Cancelling, s}
	case engine.Succeeded, engine.Failed, engine.TimedOut:
	}
	return []engine.Status{engine.Running, s}
}

func wholeTable(t *testing.T, s engine.Store) {
	for _, from := range engine.Statuses() {
		for _, to := range engine.Statuses() {
			e := become(t, s, queued(t, s), pathTo(from)...)
			k := task(t, s, e.TaskID)
			got, err := s.Transition(t.Context(), engine.Change{
				ID: e.ID, To: to, At: after(time.Hour), Error: "late",
				Audit: &engine.Audit{At: start(), Action: "test", Object: e.ID},
			})
			if from.CanBecome(to) {
				if err != nil || got.Status != to {
					t.Errorf("%s to %s: %s, %v", from, to, got.Status, err)
				}
				continue
			}
			wantCode(t, err, engine.CodeConflict)
			wantEqual(t, "after a refused "+string(from)+" to "+string(to), get(t, s, e.ID), e)
			wantEqual(t, "its task", task(t, s, e.TaskID), k)
			wantEqual(t, "audit rows", len(trail(t, s, engine.AuditFilter{Object: e.ID})), 1)
		}
	}
	_, err := s.Transition(t.Context(), engine.Change{ID: rundir.NewID(), To: engine.Running, At: start()})
	wantCode(t, err, engine.CodeNotFound)
}

func starts(t *testing.T, s engine.Store) {
	e := queued(t, s)
	want := e
	when := after(time.Second)
	want.Status, want.Activity, want.StartedAt = engine.Running, agent.Working, &when
	wantEqual(t, "running", change(t, s, engine.Change{ID: e.ID, To: engine.Running, At: when}), want)
	want.Status, want.Activity = engine.Cancelling, ""
	wantEqual(t, "cancelling", change(t, s, engine.Change{ID: e.ID, To: engine.Cancelling, At: after(time.Hour)}), want)
}

func endsWithEverything(t *testing.T, s engine.Store) {
	e := running(t, s)
	c := engine.Change{
		ID: e.ID, To: engine.Failed, At: after(time.Hour), Reason: agent.ReasonAgentLimit, Error: "limit reached",
		ResetsAt: new(after(5 * time.Hour)), ExitCode: new(0), Signal: "SIGTERM", Ended: 3, Left: 1, SessionRef: "session",
		TmuxSession: "tm-1", Usage: &agent.Usage{InputTokens: 10, OutputTokens: 20, CostUSD: 0.25}, LogBytes: 1 << 40, LogLines: 77,
	}
	want := e
	want.Status, want.Activity, want.EndedAt = engine.Failed, "", &c.At
	want.Reason, want.Error, want.ResetsAt, want.ExitCode, want.Signal = c.Reason, c.Error, c.ResetsAt, c.ExitCode, c.Signal
	want.Ended, want.Left, want.SessionRef, want.TmuxSession, want.Usage = 3, 1, "session", "tm-1", *c.Usage
	want.LogByteSize, want.LogLineCount = c.LogBytes, c.LogLines
	wantEqual(t, "returned", change(t, s, c), want)
	wantEqual(t, "stored", get(t, s, e.ID), want)
}

func zeroLeaves(t *testing.T, s engine.Store) {
	e := running(t, s)
	commit(t, s, engine.Progress{
		ID: e.ID, Cursor: at(3), Session: "session", Pid: 42, Tmux: "tm-1", LogBytes: 9, LogLines: 1,
		Usage: &agent.Usage{InputTokens: 1, OutputTokens: 2, CostUSD: 3},
	})
	want := get(t, s, e.ID)
	when := after(time.Hour)
	want.Status, want.Activity, want.EndedAt = engine.Succeeded, "", &when
	wantEqual(t, "succeeded", change(t, s, engine.Change{ID: e.ID, To: engine.Succeeded, At: when}), want)
}

func namesState(t *testing.T, s engine.Store) {
	e := become(t, s, queued(t, s), engine.Running, engine.TimedOut)
	_, err := s.Transition(t.Context(), engine.Change{ID: e.ID, To: engine.Cancelling, At: start()})
	if err == nil || !strings.Contains(err.Error(), "#1") || !strings.Contains(err.Error(), "timed out") {
		t.Errorf("the error is %q", err)
	}
}

func endSettles(t *testing.T, s engine.Store) {
	e, other := running(t, s), running(t, s)
	for _, x := range []engine.Execution{e, other} {
		for _, id := range []string{"pending", "accepted", "handed", "refused"} {
			c := send(t, s, message(x, id))
			if c.State = engine.CommandState(id); c.State != engine.Pending {
				settle(t, s, c)
			}
		}
		send(t, s, engine.Command{ExecutionID: x.ID, CreatedAt: start(), Command: rundir.Command{ID: "interrupt", Op: rundir.OpInterrupt}})
		commit(t, s, engine.Progress{ID: x.ID, Cursor: at(1), Asks: []engine.Approval{openAsk("open"), closedAsk("over", agent.AskTimedOut)}})
	}
	when := after(time.Hour)
	change(t, s, engine.Change{ID: e.ID, To: engine.Failed, At: when})
	wantEqual(t, "commands", states(t, s, e.ID), map[string]engine.CommandState{
		"pending": engine.Undelivered, "accepted": engine.Undelivered, "handed": engine.Handed,
		"refused": engine.Refused, "interrupt": engine.Undelivered,
	})
	wantEqual(t, "settled at", commands(t, s, e.ID)[0].SettledAt, &when)
	found := approvals(t, s, engine.ApprovalFilter{ExecutionID: e.ID})
	wantEqual(t, "an open ask", found[0].State, agent.AskWithdrawn)
	wantEqual(t, "withdrawn at", found[0].DecidedAt, &when)
	wantEqual(t, "a closed ask", found[1].State, agent.AskTimedOut)
	wantEqual(t, "commands of another execution", states(t, s, other.ID)["pending"], engine.Pending)
	wantEqual(t, "asks of another execution", len(approvals(t, s, engine.ApprovalFilter{OpenOnly: true})), 1)
}

func unsent(t *testing.T, s engine.Store) {
	e := running(t, s)
	for _, id := range []string{"a", "b", "c"} {
		c := send(t, s, message(e, id))
		c.State = engine.Accepted
		settle(t, s, c)
	}
	commit(t, s, engine.Progress{ID: e.ID, Cursor: at(1), Handed: []string{"c"}})
	change(t, s, engine.Change{ID: e.ID, To: engine.Cancelling, At: after(time.Hour), Unsent: []string{"a", "c", "unknown"}})
	wantEqual(t, "commands", states(t, s, e.ID), map[string]engine.CommandState{
		"a": engine.Undelivered, "b": engine.Accepted, "c": engine.Handed,
	})
}

func commandAndAudit(t *testing.T, s engine.Store) {
	e := running(t, s)
	order := engine.Command{ExecutionID: e.ID, State: engine.Pending, CreatedAt: after(time.Hour), Command: rundir.Command{ID: "stop", Op: rundir.OpCancel, By: "web", Force: true}}
	row := engine.Audit{At: after(time.Hour), Actor: "web", Action: "execution.cancel", Object: e.ID, Allowed: true, Detail: map[string]any{"force": true}}
	change(t, s, engine.Change{ID: e.ID, To: engine.Cancelling, At: after(time.Hour), Command: &order, Audit: &row})
	wantEqual(t, "command", commands(t, s, e.ID), []engine.Command{order})
	got := trail(t, s, engine.AuditFilter{Object: e.ID})[0]
	row.ID = got.ID
	wantEqual(t, "audit row", got, row)
}

// allOrNothing makes the last step of a change fail: the earlier ones must be undone.
func allOrNothing(t *testing.T, s engine.Store) {
	e := running(t, s)
	before := task(t, s, e.TaskID)
	order := message(engine.Execution{ID: "of no execution"}, "order")
	_, err := s.Transition(t.Context(), engine.Change{ID: e.ID, To: engine.Cancelling, At: after(time.Hour), Command: &order})
	if err == nil {
		t.Fatal("a command to no execution was stored")
	}
	wantEqual(t, "execution", get(t, s, e.ID), e)
	wantEqual(t, "task", task(t, s, e.TaskID), before)
}
