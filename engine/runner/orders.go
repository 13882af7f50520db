package runner

import (
	"errors"
	"fmt"
	"time"

	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/rundir"
)

// interruptWait bounds how long an agent may take to take an interrupt.
const interruptWait = 10 * time.Second

// fromTerminal is who a line typed in the pane is from.
const fromTerminal = "terminal"

// The largest size that a terminal is believed to have.
const (
	maxCols = 500
	maxRows = 200
)

// order is a command that was received. It is kept for the run's life, so that one
// that comes again is answered and not carried out again.
type order struct {
	reply   *rundir.Reply
	waiting []func(rundir.Reply)
}

// receive takes a command from the control socket. It is called by connections.
func (r *run) receive(cmd rundir.Command, answer func(rundir.Reply)) {
	if !r.loop.post(func() { r.obey(cmd, answer) }) {
		rep := refusal(rundir.CodeEnding, "the run has ended")
		rep.ID = cmd.ID
		answer(rep)
	}
}

// obey carries out a command once, however often it comes.
func (r *run) obey(cmd rundir.Command, answer func(rundir.Reply)) {
	o := r.orders[cmd.ID]
	switch {
	case cmd.ID == "":
		answer(refusal(rundir.CodeInvalid, "the command has no id"))
		return
	case cmd.Op == rundir.OpPing: // not kept: they come for as long as the run lives
		answer(rundir.Reply{ID: cmd.ID, OK: true, How: rundir.HowDone})
		return
	case o != nil && o.reply != nil:
		answer(*o.reply)
		return
	case o != nil:
		o.waiting = append(o.waiting, answer)
		return
	}
	o = &order{waiting: []func(rundir.Reply){answer}}
	r.orders[cmd.ID] = o
	r.carryOut(cmd, func(rep rundir.Reply) {
		rep.ID = cmd.ID
		rep.Error = r.mask.Text(rep.Error)
		o.reply = &rep
		for _, answer := range o.waiting {
			answer(rep)
		}
		o.waiting = nil
	})
}

func (r *run) carryOut(cmd rundir.Command, reply func(rundir.Reply)) {
	switch cmd.Op {
	case rundir.OpPing: // answered already
	case rundir.OpResize:
		r.resize(cmd, reply)
	case rundir.OpCancel:
		r.stop(ending{kind: endCancel, by: cmd.By, force: cmd.Force, reason: cmd.Reason, why: cmd.Why})
		reply(rundir.Reply{OK: true, How: rundir.HowDone})
	case rundir.OpMessage, rundir.OpInterrupt, rundir.OpDecide, rundir.OpEnd:
		r.carryOutLive(cmd, reply)
	default:
		reply(refusal(rundir.CodeInvalid, fmt.Sprintf("there is no operation %q", cmd.Op)))
	}
}

// carryOutLive carries out what makes sense only while the run goes on.
func (r *run) carryOutLive(cmd rundir.Command, reply func(rundir.Reply)) {
	if r.ending != nil {
		reply(refusal(rundir.CodeEnding, "the run is ending"))
		return
	}
	switch cmd.Op {
	case rundir.OpMessage:
		r.message(cmd, reply)
	case rundir.OpInterrupt:
		r.interrupt(reply)
	case rundir.OpDecide:
		r.decide(cmd, reply)
	case rundir.OpEnd:
		r.endByOrder(reply)
	case rundir.OpPing, rundir.OpResize, rundir.OpCancel: // answered or carried out already
	}
}

func (r *run) resize(cmd rundir.Command, reply func(rundir.Reply)) {
	if cmd.Cols < 1 || cmd.Cols > maxCols || cmd.Rows < 1 || cmd.Rows > maxRows {
		reply(refusal(rundir.CodeInvalid, fmt.Sprintf("a terminal of %d × %d is out of bounds", cmd.Cols, cmd.Rows)))
		return
	}
	r.pane.resize(cmd.Cols, cmd.Rows)
	reply(rundir.Reply{OK: true, How: rundir.HowDone})
}

// interrupt carries out OpInterrupt.
func (r *run) interrupt(reply func(rundir.Reply)) {
	switch {
	case !r.traits.Interrupt:
		reply(refusal(rundir.CodeUnsupported, "this agent cannot be interrupted; cancel the run to stop it"))
		return
	case r.session == nil:
		reply(refusal(rundir.CodeBusy, "the agent is still starting; cancel the run to stop it"))
		return
	case r.activity() == agent.Idle:
		reply(refusal(rundir.CodeInvalid, "the agent is idle: there is no turn to interrupt"))
		return
	}
	r.loop.async(interruptWait, r.session.Interrupt, func(err error) {
		switch {
		case errors.Is(err, agent.ErrUnsupported):
			reply(refusal(rundir.CodeUnsupported, err.Error()))
		case err != nil:
			reply(refusal(rundir.CodeFailed, "the agent did not take the interrupt: "+err.Error()))
		default:
			reply(rundir.Reply{OK: true, How: rundir.HowDone})
		}
	})
}

// endByOrder carries out OpEnd.
func (r *run) endByOrder(reply func(rundir.Reply)) {
	if r.session == nil || !r.idle() {
		reply(refusal(rundir.CodeBusy, "the agent is working; cancel the run to stop it"))
		return
	}
	r.stop(ending{kind: endIdle})
	reply(rundir.Reply{OK: true, How: rundir.HowDone})
}

// typed takes a line typed in the pane as a message to the agent.
func (r *run) typed(line string) {
	r.fromPane(rundir.Command{Op: rundir.OpMessage, Message: &agent.Message{Text: line, From: fromTerminal}})
}

// interrupted takes Ctrl-C in the pane.
func (r *run) interrupted() {
	r.fromPane(rundir.Command{Op: rundir.OpInterrupt})
}

func (r *run) fromPane(cmd rundir.Command) {
	cmd.ID, cmd.By = rundir.NewID(), fromTerminal
	if cmd.Message != nil {
		cmd.Message.ID = cmd.ID
	}
	r.receive(cmd, func(rep rundir.Reply) { r.pane.print(styleDim, replyNote(rep)) })
}

// replyNote is what a person at a terminal has to know of a reply.
func replyNote(rep rundir.Reply) string {
	switch {
	case !rep.OK:
		return rep.Error + "\n"
	case rep.How == rundir.HowQueued:
		return "queued until the agent's turn is over\n"
	}
	return ""
}

func refusal(code, text string) rundir.Reply {
	return rundir.Reply{Code: code, Error: text}
}

var _ typist = (*run)(nil)
