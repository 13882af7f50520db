package claude

import (
	"time"

	"github.com/threadmill/threadmill/engine/agent"
)

const (
	// settleWait is how long a turn that should begin by itself may take to do so: after
	// a background task has ended, or for a message that went into a turn's last moment.
	settleWait = 5 * time.Second
	// backgroundWait is how long background tasks keep the agent working without a sign
	// of life. A server that was started for good must not keep messages waiting for ever.
	backgroundWait = 10 * time.Minute
)

// turn derives from what the CLI says whether it works or waits for a message. The end
// of a turn is not enough: messages may wait for the next one, and background tasks
// begin turns of their own.
type turn struct {
	told    agent.Activity
	running bool             // by the CLI's own word
	states  bool             // it gives its word
	tasks   map[string]bool  // that run in the background
	lists   bool             // it lists them all; older versions only name each
	due     bool             // a task has ended and its turn has not begun
	given   map[string]*mail // messages that the CLI has not taken yet, by uuid
}

// mail is a message on its way.
type mail struct {
	late bool // it went into a running turn
	lost bool // that turn is over, and it was not taken
}

func newTurn() turn {
	return turn{tasks: map[string]bool{}, given: map[string]*mail{}}
}

// sent notes that a message was written.
func (t *turn) sent(uuid string) { t.given[uuid] = &mail{late: t.running} }

// taken notes that a message has become part of a turn, its own or a running one.
func (t *turn) taken(uuid string) { delete(t.given, uuid) }

// state takes the CLI's own word.
func (t *turn) state(s string) {
	t.states = true
	t.run(s != "idle")
}

// run notes whether a turn runs.
func (t *turn) run(running bool) {
	if running {
		t.due = false
	} else if t.running {
		t.closeTurn()
	}
	t.running = running
}

// closeTurn forgets the messages that began the turn which is over: an aborted one is
// never said to be taken by older versions.
func (t *turn) closeTurn() {
	for uuid, m := range t.given {
		if !m.late {
			delete(t.given, uuid)
		}
		m.late, m.lost = false, true
	}
}

// background notes which tasks run.
func (t *turn) background(ids []string) {
	t.lists = true
	if len(t.tasks) > 0 && len(ids) == 0 && !t.running {
		t.due = true
	}
	clear(t.tasks)
	for _, id := range ids {
		t.tasks[id] = true
	}
}

// taskBegun notes a task that a tool's result names.
func (t *turn) taskBegun(id string) {
	if id != "" && !t.lists {
		t.tasks[id] = true
	}
}

// taskEnded notes the end of a task.
func (t *turn) taskEnded(id string) {
	if t.tasks[id] {
		delete(t.tasks, id)
		t.due = !t.running
	}
}

// news returns the change of activity, where there is one.
func (t *turn) news() []agent.Entry {
	now := agent.Idle
	if t.running || t.due || len(t.tasks) > 0 || len(t.given) > 0 {
		now = agent.Working
	}
	if now == t.told {
		return nil
	}
	t.told = now
	return []agent.Entry{{Kind: agent.KindStatus, Status: &agent.Status{Activity: now}}}
}

// wait returns how long to wait for what should happen by itself; 0: nothing should.
func (t *turn) wait() time.Duration {
	lost := false
	for _, m := range t.given {
		if !m.lost {
			return 0 // it is read some time, and said so
		}
		lost = true
	}
	switch {
	case t.running:
		return 0
	case t.due, lost:
		return settleWait
	case len(t.tasks) > 0:
		return backgroundWait
	}
	return 0
}

// giveUp stops waiting for what did not happen.
func (t *turn) giveUp() {
	t.due = false
	clear(t.tasks)
	clear(t.given)
}
