package web_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/rundir"
)

// host stands in for the machine: what it "starts" is a run directory, written by the
// real writers as the test says.
type host struct {
	data string

	mu   sync.Mutex
	runs map[string]*run
}

func newHost(dir string) *host { return &host{data: dir, runs: map[string]*run{}} }

// run is one execution's files, and the test's hand on them.
type run struct {
	dir     string
	logFile *rundir.LogWriter
	events  *rundir.EventWriter

	mu      sync.Mutex
	bells   map[chan struct{}]bool
	told    []rundir.Command
	replies map[rundir.Op]rundir.Reply // instead of "done"
}

func (h *host) Launch(_ context.Context, spec rundir.Spec, _ rundir.Secrets) (engine.Launched, error) {
	dir, err := rundir.Dir(h.data, spec.ExecutionID)
	if err != nil {
		return engine.Launched{}, err
	}
	if err := rundir.Create(dir, spec); err != nil {
		return engine.Launched{}, err
	}
	r := &run{dir: dir, bells: map[chan struct{}]bool{}, replies: map[rundir.Op]rundir.Reply{}}
	if r.logFile, err = rundir.OpenLog(dir, 4<<10, 0); err != nil {
		return engine.Launched{}, err
	}
	if r.events, err = rundir.OpenEvents(dir); err != nil {
		return engine.Launched{}, err
	}
	first := agent.Entry{Kind: agent.KindStatus, Status: &agent.Status{Activity: agent.Working, SessionRef: "session-1", Pid: 4242}}
	if _, err = r.events.Append(first, nil); err != nil {
		return engine.Launched{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.runs[spec.ExecutionID] = r
	return engine.Launched{TmuxSession: "tm-test"}, nil
}

func (h *host) Inspect(context.Context, string) (engine.Sighting, error) {
	return engine.Sighting{}, nil
}

func (h *host) Follow(ctx context.Context, id string, from rundir.Cursor, sink func(context.Context, engine.Batch) error) (rundir.Result, error) {
	r := h.find(id)
	if r == nil {
		return rundir.Result{}, engine.ErrRunnerLost
	}
	bell, stop := r.listen()
	defer stop()
	for {
		res, ended, err := rundir.ReadResult(r.dir)
		if err != nil {
			return res, err
		}
		entries, next, err := rundir.ReadEvents(r.dir, from, 0)
		if err != nil {
			return res, err
		}
		from = next
		batch := engine.Batch{Entries: entries, Cursor: from, LogBytes: r.logFile.Bytes(), LogLines: r.logFile.Lines()}
		if err := sink(ctx, batch); err != nil || ended {
			return res, err
		}
		select {
		case <-ctx.Done():
			return res, ctx.Err()
		case <-bell:
		}
	}
}

func (h *host) Do(_ context.Context, id string, c rundir.Command) (rundir.Reply, error) {
	r := h.find(id)
	if r == nil {
		return rundir.Reply{}, engine.ErrRunnerLost
	}
	r.mu.Lock()
	r.told = append(r.told, c)
	reply, special := r.replies[c.Op]
	r.mu.Unlock()
	if special {
		reply.ID = c.ID
		return reply, nil
	}
	return rundir.Reply{ID: c.ID, OK: true, How: rundir.HowDone}, r.obey(c)
}

// obey does what a runner would.
func (r *run) obey(c rundir.Command) error {
	switch c.Op {
	case rundir.OpMessage:
		return r.append(agent.Entry{Kind: agent.KindUser, ID: c.ID, Content: c.Message.Text})
	case rundir.OpDecide:
		return r.append(agent.Entry{Kind: agent.KindApproval, ID: c.Decision.AskID, Ask: &agent.Ask{State: agent.AskDecided, Decision: c.Decision}})
	case rundir.OpCancel, rundir.OpEnd:
		return r.result(rundir.Result{Status: rundir.Cancelled})
	case rundir.OpInterrupt, rundir.OpResize, rundir.OpPing:
	}
	return nil
}

func (h *host) Kill(context.Context, string) (engine.Killed, error) { return engine.Killed{}, nil }
func (h *host) Remove(context.Context, string) error                { return nil }
func (h *host) Check(context.Context) (string, error)               { return "tmux 3.4", nil }

func (h *host) Files(id string) (engine.Files, error) {
	dir, err := rundir.Dir(h.data, id)
	return &files{h: h, id: id, dir: dir}, err
}

func (h *host) find(id string) *run {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.runs[id]
}

// run waits until an execution was launched.
func (h *host) run(tb testing.TB, id string) *run {
	tb.Helper()
	eventually(tb, func() (bool, string) { return h.find(id) != nil, "not launched" })
	return h.find(id)
}

func (h *host) close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var errs []error
	for _, r := range h.runs {
		errs = append(errs, r.logFile.Close(), r.events.Close())
	}
	return errors.Join(errs...)
}

// files reads a run directory.
type files struct {
	h       *host
	id, dir string
}

func (f *files) OpenEntries(_ context.Context, after int64) (engine.EntryReader, error) {
	events, err := rundir.OpenEventReader(f.dir, rundir.Cursor{})
	if err != nil {
		return nil, err
	}
	return &entries{EventReader: events, after: after}, nil
}

// entries are those after a number.
type entries struct {
	*rundir.EventReader

	after int64
}

func (e *entries) Next(limit int) ([]agent.Entry, error) {
	for {
		list, _, err := e.EventReader.Next(limit)
		if len(list) == 0 || err != nil || list[len(list)-1].Seq > e.after {
			return slices.DeleteFunc(list, func(en agent.Entry) bool { return en.Seq <= e.after }), err
		}
	}
}

func (f *files) OpenLog() (engine.Log, error) {
	log, err := rundir.OpenLogReader(f.dir)
	if err != nil {
		return nil, err
	}
	return log, nil
}

func (f *files) Tail(n int) ([]string, error) { return rundir.Tail(f.dir, n) }

func (f *files) Changed() (<-chan struct{}, func()) {
	if r := f.h.find(f.id); r != nil {
		return r.listen()
	}
	return make(chan struct{}), func() {}
}

func (r *run) listen() (<-chan struct{}, func()) {
	bell := make(chan struct{}, 1)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bells[bell] = true
	return bell, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.bells, bell)
	}
}

func (r *run) ring() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for bell := range r.bells {
		select {
		case bell <- struct{}{}:
		default:
		}
	}
}

// log writes whole lines, with their prefixes.
func (r *run) log(tb testing.TB, lines ...string) {
	tb.Helper()
	if len(lines) == 0 {
		return
	}
	if err := r.logFile.Write([]byte(strings.Join(lines, "\n") + "\n")); err != nil {
		tb.Fatal(err)
	}
	r.ring()
}

// torn leaves half a line, as a crash does.
func (r *run) torn(t *testing.T, text string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(r.dir, rundir.LogFile), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	r.ring()
}

func (r *run) append(e agent.Entry) error {
	_, err := r.events.Append(e, nil)
	r.ring()
	return err
}

// entry adds an entry.
func (r *run) entry(t *testing.T, e agent.Entry) {
	t.Helper()
	if err := r.append(e); err != nil {
		t.Fatal(err)
	}
}

// ask opens an ask.
func (r *run) ask(t *testing.T, id string) {
	t.Helper()
	r.entry(t, agent.Entry{Kind: agent.KindApproval, ID: id, Content: "May I?", Ask: &agent.Ask{
		State: agent.AskOpen, Tool: "Bash", Action: agent.ActionCommandRun, Input: []byte(`{"command":"ls"}`),
	}})
}

func (r *run) result(res rundir.Result) error {
	now := time.Now().UTC()
	res.Version, res.StartedAt, res.EndedAt = rundir.Version, now, now
	res.LastSeq, res.LogBytes, res.LogLines = r.events.LastSeq(), r.logFile.Bytes(), r.logFile.Lines()
	err := rundir.WriteJSON(filepath.Join(r.dir, rundir.ResultFile), res)
	r.ring()
	return err
}

// end ends the run with an exit code.
func (r *run) end(t *testing.T, code int) {
	t.Helper()
	res := rundir.Result{Status: rundir.Succeeded, ExitCode: &code, SessionRef: "session-1"}
	if code != 0 {
		res.Status, res.Reason, res.Message = rundir.Failed, agent.ReasonExitCode, "exited with code 3"
	}
	if err := r.result(res); err != nil {
		t.Fatal(err)
	}
}

// answer makes the run answer an operation in that way.
func (r *run) answer(op rundir.Op, reply rundir.Reply) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.replies[op] = reply
}
