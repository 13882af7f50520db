package runner

import (
	"context"
	"slices"
	"time"

	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/rundir"
)

// sendWait bounds how long an agent may take to take a message.
const sendWait = 30 * time.Second

// The policies for a message that meets a busy agent, as [rundir.Command] has them.
const (
	busySteer  = "steer"
	busyReject = "reject"
)

// mail is the messages on their way to the agent. One at a time is handed over, so
// their order stands.
type mail struct {
	queue   []*letter
	sending bool
}

// letter is a message that waits.
type letter struct {
	agent.Message

	steer bool
	reply func(rundir.Reply) // nil once it was answered
}

func (l *letter) answer(r rundir.Reply) {
	if l.reply != nil {
		l.reply(r)
		l.reply = nil
	}
}

// message carries out OpMessage.
func (r *run) message(cmd rundir.Command, reply func(rundir.Reply)) {
	m := cmd.Message
	if m == nil || m.Text == "" && len(m.Attachments) == 0 {
		reply(refusal(rundir.CodeInvalid, "the message is empty"))
		return
	}
	if !r.traits.Messages {
		reply(refusal(rundir.CodeUnsupported, "this agent takes no messages while it runs"))
		return
	}
	policy := cmd.OnBusy
	if policy == "" {
		policy = r.spec.OnBusy
	}
	if policy == busyReject && !r.idle() {
		reply(refusal(rundir.CodeBusy, "the agent is busy; try again when its turn is over"))
		return
	}
	l := &letter{Message: *m, steer: policy == busySteer && r.traits.Steering, reply: reply}
	if l.ID == "" {
		l.ID = cmd.ID
	}
	if l.From == "" {
		l.From = cmd.By
	}
	r.mail.queue = append(r.mail.queue, l)
	r.proceed()
	if !l.steer && r.waits(l) {
		l.answer(rundir.Reply{OK: true, How: rundir.HowQueued})
	}
}

func (r *run) waits(l *letter) bool {
	return slices.Contains(r.mail.queue, l)
}

// deliver hands over the next message that may go now.
func (r *run) deliver() {
	if r.session == nil || r.mail.sending || r.ending != nil {
		return
	}
	idle := r.activity() == agent.Idle
	for i, l := range r.mail.queue {
		if idle || l.steer {
			r.mail.queue = append(r.mail.queue[:i], r.mail.queue[i+1:]...)
			r.send(l, idle)
			return
		}
	}
}

// send writes a message down and hands it over. It is written down first: after a
// crash it counts as handed over, because nobody can know, and twice is worse.
func (r *run) send(l *letter, idle bool) {
	how := rundir.HowSteered
	if idle {
		how = rundir.HowStarted
	}
	r.stopIdleTimer()
	r.mail.sending = true
	r.journal.record(agent.Entry{
		Kind: agent.KindUser, ID: l.ID, Content: l.Text, Meta: userMeta(l.From, how, l.Attachments),
	})
	r.turn.base = agent.Working
	r.showActivity(agent.Status{})
	r.loop.async(sendWait, func(ctx context.Context) error {
		return r.session.Send(ctx, l.Message)
	}, func(err error) { r.sent(l, how, err) })
}

func (r *run) sent(l *letter, how rundir.How, err error) {
	r.mail.sending = false
	if err == nil {
		l.answer(rundir.Reply{OK: true, How: how})
	} else {
		r.journal.record(agent.Entry{
			Kind: agent.KindError, Content: "the agent did not take the message: " + err.Error(),
			Meta: map[string]any{"messageId": l.ID},
		})
		if how == rundir.HowStarted {
			r.turn.base = agent.Idle // no turn has begun
		}
		l.answer(refusal(rundir.CodeFailed, "the agent did not take the message: "+err.Error()))
	}
	r.showActivity(agent.Status{})
	r.proceed()
}

// unsent takes the messages that will never be handed over.
func (r *run) unsent() []string {
	var ids []string
	for _, l := range r.mail.queue {
		ids = append(ids, l.ID)
		l.answer(refusal(rundir.CodeEnding, "the run has ended"))
	}
	r.mail.queue = nil
	return ids
}

func userMeta(from string, how rundir.How, attachments []string) map[string]any {
	meta := map[string]any{}
	if from != "" {
		meta["from"] = from
	}
	if how != "" {
		meta["how"] = string(how)
	}
	if len(attachments) > 0 {
		meta["attachments"] = attachments
	}
	return meta
}
