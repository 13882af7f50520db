// Package runner is the process in the pane: it owns one execution from start to
// result. It starts the agent through an adapter, writes down what happens, takes
// commands on a socket, and ends only when no process of the run is left. The pane is
// a view: the run goes on when the terminal stops, hangs up or never was.
//
// Everything the run knows is changed by one goroutine, the loop; others hand it
// functions to run. So no state needs a lock, and nothing that may block (an agent that
// does not read, a terminal that is stuck) is ever waited for by the loop.
//
// The package knows agents only through engine/agent, and the service not at all: what
// the service has to know stands in the run's directory.
package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/redact"
	"github.com/threadmill/threadmill/engine/rundir"
)

// Options say what to run and with what.
type Options struct {
	Dir      string                   // the execution's directory
	Adapters map[string]agent.Adapter // by the name that specs use
	In, Out  *os.File                 // the terminal; nil, or not a terminal: no pane
	Log      *slog.Logger
}

// Run runs the execution in o.Dir to its end. It returns ErrAlreadyRun where the
// execution has, or had, another runner. A run that ends in whatever way is no error:
// its result says how.
//
// Run takes over the process: it reaps all children, becomes their subreaper and
// handles the signals that the end of a terminal brings.
func Run(ctx context.Context, o Options) error {
	stop := endure()
	defer stop()
	lock, err := claim(o.Dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	spec, err := rundir.ReadSpec(o.Dir)
	if err != nil {
		return fmt.Errorf("read what to run: %w", err)
	}
	r := newRun(o, spec)
	if err := r.setUp(); err != nil {
		return r.refuse(err)
	}
	r.execute(ctx)
	return r.finish()
}

// endure keeps the end of the terminal from ending the process. The signals are caught
// and not ignored, because the agent would inherit that they are ignored.
func endure() (stop func()) {
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGHUP, syscall.SIGPIPE, syscall.SIGTTOU, syscall.SIGTTIN, syscall.SIGTSTP)
	return func() { signal.Stop(caught) }
}

// run is one execution. Its fields belong to the loop once that runs.
type run struct {
	Options

	spec    rundir.Spec
	env     []string
	mask    *redact.Masker
	began   time.Time
	adapter agent.Adapter
	traits  agent.Traits

	events  *rundir.EventWriter
	log     *rundir.LogWriter
	journal *journal
	pane    *pane
	screen  *screen
	kit     *kit
	spawner *spawner
	server  *server
	loop    *loop

	session agent.Session
	turn    turn
	asks    asks
	mail    mail
	orders  map[string]*order // by command id
	ending  *ending           // nil while the run goes on
	facts   facts

	outputFull atomic.Bool // set by whoever finds the log full
}

// facts is what a result says beside how the run ended.
type facts struct {
	outcome    agent.Outcome
	sessionRef string
	pid        int
	usage      agent.Usage
}

func newRun(o Options, spec rundir.Spec) *run {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &run{
		Options: o, spec: spec, began: time.Now(), loop: newLoop(),
		asks: asks{open: map[string]*ask{}}, orders: map[string]*order{},
		facts: facts{sessionRef: spec.SessionRef},
	}
}

// setUp prepares everything that has to be there before the agent starts, and nothing
// else: how fast a run starts is what people notice.
func (r *run) setUp() error {
	secrets, err := takeSecrets(r.spec.Secrets)
	if err != nil {
		return err
	}
	r.env, r.mask = secrets.Env, redact.New(secrets.Mask)
	if err := r.openFiles(); err != nil {
		return err
	}
	var known bool
	if r.adapter, known = r.Adapters[r.spec.Adapter]; !known {
		return notFoundError(fmt.Sprintf("there is no adapter %q in this binary", r.spec.Adapter))
	}
	r.traits = r.adapter.Traits()
	if err := reserveResult(r.Dir); err != nil {
		return err
	}
	socket, err := listen(r.spec.Socket)
	if err != nil {
		return err
	}
	if err := announce(r.Dir, r.spec.Socket, r.began, r.onTerminal()); err != nil {
		return errors.Join(err, socket.Close())
	}
	r.spawner = newSpawner()
	r.kit.spawner = r.spawner
	r.server = newServer(socket, r.hello, r.receive)
	return nil
}

func (r *run) openFiles() (err error) {
	if r.events, err = rundir.OpenEvents(r.Dir); err != nil {
		return err
	}
	if r.log, err = rundir.OpenLog(r.Dir, r.spec.RotateBytes, r.spec.MaxOutputBytes); err != nil {
		return err
	}
	r.pane = newPane(r.began, r.onTerminal())
	r.pane.print(styleBold, r.title()+"\n")
	r.pane.print(styleDim, fmt.Sprintf("%s in %s\n", r.spec.Agent, r.spec.Dir))
	r.journal = &journal{
		events: r.events, mask: r.mask, failed: r.unwritable,
		script: newTranscript(r.log, r.pane, r.unwritable),
	}
	r.kit = &kit{
		executionID: r.spec.ExecutionID, dir: r.Dir, log: r.log, mask: r.mask, pane: r.pane,
		failed: r.unwritable, started: r.processStarted,
	}
	return nil
}

func (r *run) title() string { return fmt.Sprintf("#%d %s", r.spec.Number, r.spec.Title) }

func (r *run) onTerminal() bool {
	return r.Out != nil && term.IsTerminal(int(r.Out.Fd()))
}

// hello is what the control socket says about this run. It is called by connections,
// so it asks the loop; a run that has ended says nothing of what it does.
func (r *run) hello() rundir.Hello {
	h := rundir.Hello{
		Version: rundir.Version, ExecutionID: r.spec.ExecutionID, Pid: os.Getpid(), LastSeq: r.events.LastSeq(),
	}
	answer := make(chan agent.Activity, 1)
	if r.loop.post(func() { answer <- r.activity() }) {
		h.Activity = <-answer
	}
	return h
}

// execute starts the agent and runs the loop until the agent has ended.
func (r *run) execute(ctx context.Context) {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx)) // the run ends in order, not with ctx
	defer cancel()
	r.loop.ctx, r.loop.cancel, r.kit.ctx = work, cancel, work
	r.begin()
	stop := context.AfterFunc(ctx, func() { r.loop.note(func() { r.cancel("the service manager", false) }) })
	defer stop()
	r.loop.goes.Go(r.watchSignals)
	r.openPane()
	if d := time.Duration(r.spec.Timeout); d > 0 {
		timer := r.loop.after(d, r.timedOut)
		defer timer.Stop()
	}
	r.loop.run(r.entry)
	r.endSession()
}

// begin writes down the prompt, then starts the agent beside the loop: some take
// seconds to say that they are there, and can be cancelled meanwhile.
func (r *run) begin() {
	if r.spec.Prompt != "" {
		r.journal.record(agent.Entry{
			Kind: agent.KindUser, ID: r.spec.PromptID, Content: r.spec.Prompt,
			Meta: userMeta(r.spec.From, "", r.spec.Attachments),
		})
	}
	r.turn.base = agent.Working
	job := r.job()
	var session agent.Session
	r.loop.async(0, func(ctx context.Context) (err error) {
		session, err = r.adapter.Start(ctx, job, r.kit)
		return err
	}, func(err error) { r.started(session, err) })
}

func (r *run) job() agent.Job {
	s := r.spec
	return agent.Job{
		ExecutionID: s.ExecutionID, Argv: s.Argv, Dir: s.Dir, Env: r.env, Prompt: s.Prompt, Attachments: s.Attachments,
		OutputDir: filepath.Join(r.Dir, rundir.OutputDir), SessionRef: s.SessionRef, Fork: s.Fork,
		Permission: s.Permission, Options: s.Options,
	}
}

// started takes over the session, or the news that there is none.
func (r *run) started(session agent.Session, err error) {
	if err != nil {
		r.facts.outcome = startFailure(err)
		r.loop.end()
		return
	}
	r.session = session
	r.loop.entries = session.Entries()
	if r.ending != nil {
		r.loop.async(politeWait, session.Close, func(error) {}) // it came too late to be asked politely
		return
	}
	r.showActivity(agent.Status{})
	r.proceed()
}

func startFailure(err error) agent.Outcome {
	o := agent.Outcome{Reason: agent.ReasonAgentError, Message: err.Error()}
	if errors.Is(err, os.ErrNotExist) {
		o.Reason = agent.ReasonNotFound
	}
	return o
}

// processStarted notes the agent's process, the first one that the adapter starts. It
// is called by adapters.
func (r *run) processStarted(pid int) {
	r.loop.note(func() {
		if r.facts.pid == 0 {
			r.facts.pid = pid
			r.showActivity(agent.Status{Pid: pid})
		}
	})
}

// unwritable ends a run that cannot be written down, or has written more than it may.
// It is called from everywhere.
func (r *run) unwritable(err error) {
	if errors.Is(err, rundir.ErrLogLimit) {
		r.outputFull.Store(true)
	}
	r.loop.note(func() { r.stopWriting(err) })
}

// watchSignals makes orders of the signals that people send by hand.
func (r *run) watchSignals() {
	caught := make(chan os.Signal, 4)
	signal.Notify(caught, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(caught)
	for {
		select {
		case sig := <-caught:
			if sig == syscall.SIGINT {
				r.interrupted()
			} else {
				r.loop.note(func() { r.cancel("SIGTERM", false) })
			}
		case <-r.loop.over:
			return
		}
	}
}

// openPane shows what there is so far and from now on. It comes after the agent's
// start, because a terminal can be slow.
func (r *run) openPane() {
	r.screen = openScreen(r.In, r.Out, r, r.pane.resize)
	if err := r.pane.open(r.Dir, r.title(), r.screen); err != nil {
		r.Log.Warn("the pane is not recorded", "error", err)
	}
}
