package runner

import (
	"time"

	"github.com/threadmill/threadmill/engine/agent"
)

// turn is what the agent is doing.
type turn struct {
	base  agent.Activity // as the adapter says: working or idle
	shown agent.Activity // as it was last written down
	idle  *time.Timer    // ends the session; nil while it works
}

// entry takes what the adapter yields. It is called by the loop.
func (r *run) entry(e agent.Entry) {
	e.Seq, e.Time = 0, time.Time{} // the runner's to give
	switch {
	case e.Kind == agent.KindStatus:
		r.status(e)
	case e.Ask != nil && (e.Kind == agent.KindApproval || e.Kind == agent.KindQuestion):
		r.asked(e)
	case e.Kind == agent.KindUsage && e.Usage != nil:
		r.facts.usage = *e.Usage
		r.journal.record(e)
	default:
		r.journal.record(e)
	}
}

// status folds what an adapter reports into what is known, and writes down changes.
func (r *run) status(e agent.Entry) {
	if e.Status == nil {
		return
	}
	var news agent.Status
	if ref := e.Status.SessionRef; ref != "" && ref != r.facts.sessionRef {
		r.facts.sessionRef, news.SessionRef = ref, ref
	}
	if pid := e.Status.Pid; pid > 0 && pid != r.facts.pid {
		r.facts.pid, news.Pid = pid, pid
	}
	if a := e.Status.Activity; a == agent.Working || a == agent.Idle {
		r.turn.base = a
	}
	if e.Status.Activity == agent.Idle {
		r.journal.settle() // the turn is over: what was held back of it is all
	}
	r.showActivity(news)
	r.proceed()
}

// activity is what the agent does: an open ask comes before what the adapter says.
func (r *run) activity() agent.Activity {
	if a := r.asks.activity(); a != "" {
		return a
	}
	return r.turn.base
}

// showActivity writes down a change of activity, and other news with it.
func (r *run) showActivity(news agent.Status) {
	if now := r.activity(); now != r.turn.shown {
		r.turn.shown, news.Activity = now, now
	}
	if news != (agent.Status{}) {
		r.journal.record(agent.Entry{Kind: agent.KindStatus, Status: &news})
	}
}

// proceed does what is next after a change: it hands over a message that waits, ends a
// session that has nothing more to do, or begins to count its idle time.
func (r *run) proceed() {
	if r.session == nil || r.ending != nil {
		return
	}
	r.deliver()
	switch {
	case !r.idle():
		r.stopIdleTimer()
	case r.spec.IdleTimeout <= 0:
		r.stop(ending{kind: endIdle})
	case r.turn.idle == nil:
		r.turn.idle = r.loop.after(time.Duration(r.spec.IdleTimeout), r.idleTooLong)
	}
}

// idle reports whether the agent waits for a message and none is on its way.
func (r *run) idle() bool {
	return r.activity() == agent.Idle && !r.mail.sending && len(r.mail.queue) == 0
}

func (r *run) idleTooLong() {
	if r.turn.idle != nil && r.idle() && r.ending == nil {
		r.stop(ending{kind: endIdle})
	}
}

func (r *run) stopIdleTimer() {
	if r.turn.idle != nil {
		r.turn.idle.Stop()
		r.turn.idle = nil
	}
}
