package engine_test

import (
	"context"
	"errors"
	"sync"

	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/rundir"
)

// scriptedHost is a host whose runners are played by the test. The real one, with
// real runners, is under test together with the engine in the tests of the binary.
type scriptedHost struct {
	mu      sync.Mutex
	runners map[string]*player
	removed []string
	stuck   string       // whose files cannot be removed
	started chan *player // gets each runner that is launched
}

// player is one execution's runner.
type player struct {
	spec    rundir.Spec
	mu      sync.Mutex
	orders  []rundir.Command
	batches chan engine.Batch
	unseen  []agent.Entry  // written while nobody followed
	over    *rundir.Result // ended while nobody followed
	result  chan rundir.Result
	lost    chan struct{}
	refuse  func(rundir.Command) (rundir.Reply, error)
	killed  int
	seq     int64
}

func newScriptedHost() *scriptedHost {
	return &scriptedHost{runners: map[string]*player{}, started: make(chan *player, 100)}
}

func (h *scriptedHost) Launch(_ context.Context, spec rundir.Spec, _ rundir.Secrets) (engine.Launched, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.runners[spec.ExecutionID] == nil {
		p := &player{spec: spec, batches: make(chan engine.Batch), result: make(chan rundir.Result, 1), lost: make(chan struct{})}
		h.runners[spec.ExecutionID] = p
		h.started <- p
	}
	return engine.Launched{TmuxSession: "tm-" + spec.ExecutionID}, nil
}

func (h *scriptedHost) player(id string) *player {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.runners[id]
}

func (h *scriptedHost) Inspect(_ context.Context, id string) (engine.Sighting, error) {
	p := h.player(id)
	if p == nil {
		return engine.Sighting{}, nil
	}
	s := engine.Sighting{Spec: true, Info: true, Answer: true, Alive: true, Result: p.over}
	select {
	case <-p.lost:
		s.Answer, s.Alive = false, false
	default:
	}
	return s, nil
}

func (h *scriptedHost) Follow(ctx context.Context, id string, _ rundir.Cursor, sink func(context.Context, engine.Batch) error) (rundir.Result, error) {
	p := h.player(id)
	if p.unseen != nil {
		if err := sink(ctx, engine.Batch{Entries: p.unseen, Cursor: p.cursor()}); err != nil {
			return rundir.Result{}, err
		}
		p.unseen = nil
	}
	if p.over != nil {
		return *p.over, nil
	}
	for {
		select {
		case b := <-p.batches:
			if err := sink(ctx, b); err != nil {
				return rundir.Result{}, err
			}
		case res := <-p.result:
			return res, nil
		case <-p.lost:
			return rundir.Result{}, engine.ErrRunnerLost
		case <-ctx.Done():
			return rundir.Result{}, ctx.Err()
		}
	}
}

func (h *scriptedHost) Do(_ context.Context, id string, cmd rundir.Command) (rundir.Reply, error) {
	p := h.player(id)
	if p == nil {
		return rundir.Reply{}, errors.New("no such runner")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuse != nil {
		if reply, err := p.refuse(cmd); err != nil || reply.ID != "" {
			return reply, err
		}
	}
	if cmd.Op != rundir.OpPing {
		p.orders = append(p.orders, cmd)
	}
	return rundir.Reply{ID: cmd.ID, OK: true, How: rundir.HowDone}, nil
}

func (h *scriptedHost) Kill(_ context.Context, id string) (engine.Killed, error) {
	p := h.player(id)
	if p == nil {
		return engine.Killed{}, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.killed++
	if p.killed == 1 {
		select {
		case <-p.lost:
		default:
			close(p.lost)
		}
		return engine.Killed{Ended: 2}, nil
	}
	return engine.Killed{}, nil
}

func (h *scriptedHost) Files(string) (engine.Files, error) { return noFiles{}, nil }

func (h *scriptedHost) Remove(_ context.Context, id string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if id == h.stuck {
		return errors.New("permission denied")
	}
	h.removed = append(h.removed, id)
	return nil
}

func (h *scriptedHost) Check(context.Context) (string, error) { return "", nil }

// says lets the runner write entries.
func (p *player) says(entries ...agent.Entry) {
	for i := range entries {
		p.seq++
		entries[i].Seq = p.seq
	}
	p.batches <- engine.Batch{Entries: entries, Cursor: p.cursor()}
}

func (p *player) cursor() rundir.Cursor { return rundir.Cursor{Seq: p.seq, Offset: p.seq * 10} }

// endsUnseen lets the runner write its last entries and end while there is no service.
func (p *player) endsUnseen(res rundir.Result, entries ...agent.Entry) {
	p.seq += int64(len(entries))
	p.unseen, p.over = entries, &res
}

// deaf makes the runner answer nothing from now on.
func (p *player) deaf() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = func(rundir.Command) (rundir.Reply, error) { return rundir.Reply{}, errors.New("no answer") }
}

// refuses makes the runner refuse one kind of order from now on.
func (p *player) refuses(op rundir.Op) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = func(cmd rundir.Command) (rundir.Reply, error) {
		if cmd.Op != op {
			return rundir.Reply{}, nil
		}
		p.orders = append(p.orders, cmd)
		return rundir.Reply{ID: cmd.ID, Code: rundir.CodeBusy, Error: "busy"}, nil
	}
}

// got returns what the runner was told so far.
func (p *player) got() []rundir.Command {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]rundir.Command(nil), p.orders...)
}

// noFiles is an execution that wrote nothing.
type noFiles struct{}

func (noFiles) OpenEntries(context.Context, int64) (engine.EntryReader, error) {
	return nil, errors.New("no entries")
}
func (noFiles) OpenLog() (engine.Log, error)       { return nil, errors.New("no log") }
func (noFiles) Tail(int) ([]string, error)         { return []string{"[stdout] the end"}, nil }
func (noFiles) Changed() (<-chan struct{}, func()) { return nil, func() {} }
