package runner

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/rundir"
)

// settleWait bounds how long calls into an adapter may take to return at the end.
const settleWait = 2 * time.Second

// endSession waits until no process is left and everything they wrote is written down.
func (r *run) endSession() {
	if r.ending == nil {
		r.stop(ending{kind: endNatural})
	}
	r.loop.wait(r.ending.done)
	r.kit.drain(drainWait)
}

// finish says how the run ended, in the order that lets nobody see a result before all
// that it speaks of.
func (r *run) finish() error {
	r.loop.settle(settleWait)
	if r.session != nil && !r.loop.ended {
		r.facts.outcome = r.session.Outcome()
	}
	r.withdrawAsks()
	unsent := r.unsent()
	r.journal.settle()
	res := r.conclude()
	res.Unsent = unsent
	r.sayHowItEnded(res)
	err := errors.Join(r.kit.close(), r.pane.close(), r.events.Close(), r.log.Close())
	if err != nil {
		r.Log.Error("a file of the run could not be closed", "error", err)
	}
	res.LastSeq, res.LogBytes, res.LogLines = r.events.LastSeq(), r.log.Bytes(), r.log.Lines()
	res.EndedAt = time.Now().UTC()
	err = writeResult(r.Dir, res)
	r.server.close()
	r.spawner.close()
	r.screen.close()
	return err
}

// refuse ends a run that could not be begun, with a result that says why.
func (r *run) refuse(cause error) error {
	o := startFailure(cause)
	res := r.result(rundir.Failed, o.Reason, o.Message)
	if r.journal != nil {
		r.journal.record(agent.Entry{Kind: agent.KindError, Content: o.Message, Failure: &agent.Failure{Reason: o.Reason}})
		res.LastSeq = r.events.LastSeq()
	}
	if r.log != nil {
		res.LogBytes, res.LogLines = r.log.Bytes(), r.log.Lines()
	}
	for _, c := range r.opened() {
		_ = c.Close() // nothing is in them that the result does not say
	}
	res.EndedAt = time.Now().UTC()
	return writeResult(r.Dir, res)
}

func (r *run) opened() []io.Closer {
	var c []io.Closer
	if r.events != nil {
		c = append(c, r.events)
	}
	if r.log != nil {
		c = append(c, r.log)
	}
	return c
}

// conclude tells how the run ended.
func (r *run) conclude() rundir.Result {
	e, o := r.ending, r.facts.outcome
	if e.sweepErr != nil {
		r.Log.Error("the run's processes could not all be looked for", "error", e.sweepErr)
	}
	if e.kind == endNatural && r.outputFull.Load() {
		e.kind = endLimit // it ended before it could be stopped
	}
	var res rundir.Result
	switch e.kind {
	case endCancel:
		if e.reason != "" {
			res = r.result(rundir.Failed, e.reason, e.why)
			break
		}
		res = r.result(rundir.Cancelled, "", "cancelled"+by(&agent.Decision{By: e.by}))
	case endTimeout:
		res = r.result(rundir.TimedOut, "", fmt.Sprintf("it ran longer than its limit of %s", time.Duration(r.spec.Timeout)))
	case endLimit:
		res = r.result(rundir.Failed, agent.ReasonOutputLimit,
			fmt.Sprintf("it wrote more than its limit of %d bytes", r.spec.MaxOutputBytes))
	case endBroken:
		res = r.result(rundir.Failed, agent.ReasonAgentError, "the run could not be written down: "+e.err.Error())
	case endNatural, endIdle:
		res = r.byOutcome(o, e.kind == endIdle && e.signalled.Load())
	}
	res.ExitCode, res.Signal = o.ExitCode, o.Signal
	res.Ended, res.Left = e.swept.Ended, e.swept.Left
	if e.kind != endNatural {
		res.StopAfter, res.By = rundir.Duration(e.stopped.Sub(e.at)), e.by
	}
	return res
}

// byOutcome tells how an agent ended that was left to end; one that was idle and had
// to be signalled did what was asked of it.
func (r *run) byOutcome(o agent.Outcome, signalled bool) rundir.Result {
	switch {
	case r.loop.ended && r.session != nil && !signalled:
		return r.result(rundir.Failed, agent.ReasonAgentError, "the agent's end was not noticed by its adapter")
	case o.Reason == "" || signalled:
		return r.result(rundir.Succeeded, "", "")
	}
	res := r.result(rundir.Failed, o.Reason, o.Message)
	if o.Failure != nil {
		res.ResetsAt = o.Failure.ResetsAt
	}
	return res
}

func (r *run) result(s rundir.Status, reason agent.Reason, message string) rundir.Result {
	return rundir.Result{
		Version: rundir.Version, Status: s, Reason: reason, Message: r.mask.Text(strings.TrimSpace(message)),
		SessionRef: r.facts.sessionRef, Usage: r.facts.usage, StartedAt: r.began.UTC(),
	}
}

// sayHowItEnded writes the end down for those who read along. What the agent itself
// has said about its failure is not said again.
func (r *run) sayHowItEnded(res rundir.Result) {
	e := agent.Entry{Kind: agent.KindSystem, Content: res.Message}
	style := styleGreen
	switch res.Status {
	case rundir.Succeeded:
		e.Content = ""
	case rundir.Cancelled:
		style = styleYellow
	case rundir.Failed, rundir.TimedOut:
		style = styleRed
		if res.Status == rundir.TimedOut || res.Reason == agent.ReasonOutputLimit || res.Reason == agent.ReasonBudget || r.session == nil {
			e.Kind = agent.KindError
		}
		if e.Kind == agent.KindError && res.Reason != "" {
			e.Failure = &agent.Failure{Reason: res.Reason, ResetsAt: res.ResetsAt}
		}
	}
	if e.Content != "" && (e.Kind == agent.KindError || e.Content != r.journal.fault) {
		r.journal.record(e)
	}
	line := fmt.Sprintf("— %s after %s", res.Status, time.Since(r.began).Round(100*time.Millisecond))
	r.pane.print(styleBold+style, line+"\n")
}
