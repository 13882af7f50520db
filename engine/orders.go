package engine

import (
	"context"
	"slices"
	"time"

	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/rundir"
	"github.com/threadmill/threadmill/engine/safety"
)

const (
	answerPatience = 2 * time.Second  // how long a caller waits for a runner's answer
	orderTimeout   = 10 * time.Second // of one delivery; then it is tried again
	cancelPatience = 20 * time.Second // then the host ends what the runner did not
	forcePatience  = 2 * time.Second  // the same, for a cancel by force
)

// MessageRequest is a follow-up for a running agent.
type MessageRequest struct {
	ID          string // the sender's own id, so that saying it twice is once; empty: a new one
	Text        string
	By          string
	OnBusy      OnBusy // instead of the agent's own policy
	Attachments []string
}

// Send gives a message to an execution. It is stored first, so it reaches the agent
// also when the service is killed now. The answer says how far it has come within
// two seconds; Pending and Accepted ones are delivered later.
func (e *Engine) Send(ctx context.Context, ref string, m MessageRequest) (Command, error) {
	x, err := e.store.Execution(ctx, ref)
	if err != nil {
		return Command{}, err
	}
	switch {
	case m.Text == "" && len(m.Attachments) == 0:
		return Command{}, Errorf(CodeInvalid, "the message is empty")
	case !e.traits(x.AgentID).Messages:
		return Command{}, Errorf(CodeUnsupported, "agent %s takes no messages while it runs", x.AgentID)
	case x.Status.Ended():
		return Command{}, Errorf(CodeConflict, "execution #%d has ended (%s): resume it", x.Number, x.Status)
	case x.Status == Cancelling:
		return Command{}, Errorf(CodeConflict, "execution #%d is being stopped", x.Number)
	}
	if err := e.affordable(ctx, x); err != nil {
		return Command{}, err
	}
	text, err := safety.Text("text", m.Text)
	if err != nil {
		return Command{}, refusal("the message", err)
	}
	id := first(m.ID, rundir.NewID())
	return e.order(ctx, x, rundir.Command{
		ID: id, Op: rundir.OpMessage, OnBusy: string(m.OnBusy), By: m.By,
		Message: &agent.Message{ID: id, Text: text, From: m.By, Attachments: m.Attachments},
	}, "execution.message")
}

// Interrupt ends an agent's running turn; the agent lives on.
func (e *Engine) Interrupt(ctx context.Context, ref, by string) (Command, error) {
	x, err := e.store.Execution(ctx, ref)
	if err != nil {
		return Command{}, err
	}
	switch {
	case !e.traits(x.AgentID).Interrupt:
		return Command{}, Errorf(CodeUnsupported, "agent %s cannot be interrupted; cancel it", x.AgentID)
	case x.Status != Running:
		return Command{}, Errorf(CodeConflict, "execution #%d is %s: there is nothing to interrupt", x.Number, x.Status)
	}
	return e.order(ctx, x, rundir.Command{ID: rundir.NewID(), Op: rundir.OpInterrupt, By: by}, "execution.interrupt")
}

// order stores a command, has it delivered and waits a little for the answer.
func (e *Engine) order(ctx context.Context, x Execution, c rundir.Command, action string) (Command, error) {
	answer, stop := e.await(c.ID)
	defer stop()
	at := e.now().UTC()
	stored, created, err := e.store.AddCommand(ctx,
		Command{Command: c, ExecutionID: x.ID, State: Pending, CreatedAt: at},
		&Audit{At: at, Actor: c.By, Action: action, Object: x.ID, Allowed: true})
	if err != nil || !created {
		return stored, err
	}
	return e.answered(ctx, stored, answer)
}

// answered waits for a stored command's answer; without one in time it is pending.
func (e *Engine) answered(ctx context.Context, c Command, answer <-chan Command) (Command, error) {
	r := e.run(c.ExecutionID)
	if r == nil {
		return c, nil // queued: it is delivered when it starts
	}
	r.orders.ring()
	timeout := time.NewTimer(answerPatience)
	defer timeout.Stop()
	select {
	case got := <-answer:
		if got.State == Refused {
			return got, Errorf(CodeConflict, "execution #%d: %s", r.number, got.Error)
		}
		return got, nil
	case <-timeout.C:
	case <-r.done:
	case <-ctx.Done():
	}
	return c, nil
}

// await registers for the answer to a command.
func (e *Engine) await(id string) (<-chan Command, func()) {
	ch := make(chan Command, 1)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.waiting[id] = ch
	return ch, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.waiting[id] == ch {
			delete(e.waiting, id)
		}
	}
}

// Commands returns what an execution was told, in order.
func (e *Engine) Commands(ctx context.Context, ref string) ([]Command, error) {
	x, err := e.store.Execution(ctx, ref)
	if err != nil {
		return nil, err
	}
	return e.store.Commands(ctx, x.ID)
}

// Cancel stops an execution. It returns at once, with the execution cancelling (or
// cancelled, when it had not started); it is called cancelled only when no process of
// it is left. Force leaves out the polite steps; it may follow a cancel that takes
// too long.
func (e *Engine) Cancel(ctx context.Context, ref, by string, force bool) (Execution, error) {
	x, err := e.store.Execution(ctx, ref)
	if err != nil {
		return x, err
	}
	at := e.now().UTC()
	order := &Command{ExecutionID: x.ID, State: Pending, CreatedAt: at, Command: rundir.Command{ID: rundir.NewID(), Op: rundir.OpCancel, By: by, Force: force}}
	audit := &Audit{At: at, Actor: by, Action: "execution.cancel", Object: x.ID, Allowed: true, Detail: map[string]any{"force": force}}
	switch {
	case x.Status.Ended():
		return x, Errorf(CodeConflict, "execution #%d has ended already (%s)", x.Number, x.Status)
	case x.Status == Cancelling && !force:
		return x, nil
	case x.Status == Cancelling:
		_, _, err = e.store.AddCommand(ctx, *order, audit)
	default:
		x, err = e.cancelling(ctx, x, order, audit)
	}
	if err != nil {
		return x, err
	}
	e.watchers.ring(x.ID)
	if r := e.run(x.ID); r != nil {
		r.orders.ring()
		e.insist(r, patience(force))
		return x, nil
	}
	return x, nil
}

func patience(force bool) time.Duration {
	if force {
		return forcePatience
	}
	return cancelPatience
}

// cancelling makes the change; an execution that was still queued is cancelled with it.
func (e *Engine) cancelling(ctx context.Context, x Execution, order *Command, audit *Audit) (Execution, error) {
	// The order is stored also for a queued one: it may be started at this very moment.
	next, err := e.store.Transition(ctx, Change{ID: x.ID, To: Cancelling, At: order.CreatedAt, Audit: audit, Command: order})
	if err != nil {
		return x, err
	}
	if x.Status != Queued || next.StartedAt != nil {
		return next, nil
	}
	if ended, err := e.store.Transition(ctx, Change{ID: x.ID, To: Cancelled, At: order.CreatedAt}); err == nil {
		return ended, nil
	}
	// The first half stands, so it is cancelled: like what an earlier service has left
	// so, it is brought to its end in the background.
	if r := e.register(next); r != nil {
		e.begin(r, next)
	}
	return next, nil
}

// insist makes sure that a cancelled run ends: what its runner has not ended by then
// is killed from outside, and the follower settles it.
func (e *Engine) insist(r *run, after time.Duration) {
	e.wg.Go(func() {
		t := time.NewTimer(after)
		defer t.Stop()
		select {
		case <-r.done:
			return
		case <-e.work.Done():
			return
		case <-t.C:
		}
		e.log.Warn("a run did not stop in time; killing it", "execution", r.id, "number", r.number)
		if _, err := e.sweep(e.work, r.id); err != nil && e.work.Err() == nil {
			e.log.Error("a run could not be killed", "execution", r.id, "error", err)
		}
	})
}

// deliver hands an execution's commands to its runner, in order, until the run has
// ended. A delivery of unknown outcome is repeated: the runner knows the id.
func (e *Engine) deliver(ctx context.Context, r *run) {
	const shortest, longest = 20 * time.Millisecond, 2 * time.Second
	wait := shortest
	for {
		var again <-chan time.Time
		if err := e.deliverAll(ctx, r); err != nil {
			again, wait = time.After(wait), min(2*wait, longest)
		} else {
			wait = shortest
		}
		select {
		case <-ctx.Done():
			return
		case <-r.done:
			return
		case <-r.orders:
			wait = shortest
		case <-again:
		}
	}
}

func (e *Engine) deliverAll(ctx context.Context, r *run) error {
	pending, err := e.store.PendingCommands(ctx, r.id)
	if err != nil {
		return err
	}
	slices.SortStableFunc(pending, func(a, b Command) int { return urgency(a) - urgency(b) })
	for _, c := range pending {
		if err := e.deliverOne(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// urgency lets a cancel overtake messages that an agent may be slow to take.
func urgency(c Command) int {
	if c.Op == rundir.OpCancel {
		return 0
	}
	return 1
}

func (e *Engine) deliverOne(ctx context.Context, c Command) error {
	bounded, cancel := context.WithTimeout(ctx, orderTimeout)
	defer cancel()
	reply, err := e.host.Do(bounded, c.ExecutionID, c.Command)
	if err != nil {
		return err
	}
	at := e.now().UTC()
	c.State, c.How, c.Error, c.SettledAt = stateAfter(c.Op, reply), reply.How, reply.Error, &at
	if err := e.store.SettleCommand(ctx, c); err != nil {
		return err
	}
	e.tell(c)
	e.watchers.ring(c.ExecutionID)
	return nil
}

// tell passes a settled command to whoever waits for it.
func (e *Engine) tell(c Command) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if ch := e.waiting[c.ID]; ch != nil {
		ch <- c // room for one, and it is taken out at once
		delete(e.waiting, c.ID)
	}
}

func stateAfter(op rundir.Op, r rundir.Reply) CommandState {
	switch {
	case !r.OK:
		return Refused
	case op == rundir.OpMessage:
		return Accepted
	}
	return Handed
}

// StopTask cancels the task's running execution.
func (e *Engine) StopTask(ctx context.Context, id, by string) (Execution, error) {
	x, err := e.activeOf(ctx, id)
	if err != nil {
		return x, err
	}
	if x.ID == "" {
		return x, Errorf(CodeNotFound, "No running agent found")
	}
	return e.Cancel(ctx, x.ID, by, false)
}

// RunTask starts an execution in a task that has none running. Without a text the
// agent is told what the task says.
func (e *Engine) RunTask(ctx context.Context, id string, q Request) (Execution, error) {
	q.TaskID, q.taskFree = id, true
	x, _, err := e.Submit(ctx, q)
	return x, err
}

// activeOf returns the task's newest execution that has not ended, or none.
func (e *Engine) activeOf(ctx context.Context, taskID string) (Execution, error) {
	if _, err := e.store.Task(ctx, taskID); err != nil {
		return Execution{}, err
	}
	page, _, err := e.store.Executions(ctx, Filter{TaskID: taskID, Statuses: []Status{Queued, Running, Cancelling}, PageSize: 1})
	if err != nil || len(page) == 0 {
		return Execution{}, err
	}
	return page[0], nil
}
