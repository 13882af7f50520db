package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"

	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/rundir"
)

// Launch starts the runner of an execution, in a tmux session where that is possible
// and without a terminal where it is not. Where a runner has started already, it
// changes nothing; where one is about to, the second gives way at the lock.
func (h *Host) Launch(ctx context.Context, spec rundir.Spec, secrets rundir.Secrets) (engine.Launched, error) {
	id := spec.ExecutionID
	dir, err := h.dir(id)
	if err != nil {
		return engine.Launched{}, err
	}
	if info, ok, err := rundir.ReadInfo(dir); err != nil {
		return engine.Launched{}, err
	} else if ok {
		return already(id, info), nil
	}
	if spec.Socket, err = h.socketPath(id); err != nil {
		return engine.Launched{}, err
	}
	if spec.Secrets, err = h.secretsPath(id); err != nil {
		return engine.Launched{}, err
	}
	if err := h.prepare(dir, spec, secrets); err != nil {
		return engine.Launched{}, err
	}
	// From here on a runner may exist at any moment and wants its secrets: the start is
	// seen through even where the service is told to stop. It is bounded by itself.
	launched, err := h.start(context.WithoutCancel(ctx), dir, spec)
	if err != nil {
		return engine.Launched{}, errors.Join(fmt.Errorf("start the runner of #%d: %w", spec.Number, err), h.forget(id, ".env"))
	}
	return launched, nil
}

// prepare writes what the runner reads, one launch at a time: two of the same
// execution would get in each other's way.
func (h *Host) prepare(dir string, spec rundir.Spec, secrets rundir.Secrets) error {
	h.preparing.Lock()
	defer h.preparing.Unlock()
	if err := rundir.Create(dir, spec); err != nil {
		return err
	}
	return writeSecrets(spec.Secrets, secrets)
}

// already is the answer to a launch that was repeated.
func already(id string, info rundir.Info) engine.Launched {
	if info.Pane {
		return engine.Launched{TmuxSession: session(id)}
	}
	return engine.Launched{}
}

func (h *Host) start(ctx context.Context, dir string, spec rundir.Spec) (engine.Launched, error) {
	argv := []string{h.o.Binary, "runner", "--dir", dir}
	server := h.tmux()
	if server == nil {
		return engine.Launched{Notice: "tmux is not installed; the run has no terminal"}, h.detached(argv)
	}
	name := session(spec.ExecutionID)
	err := server.NewSession(ctx, name, strconv.FormatInt(spec.Number, 10), argv)
	if err == nil {
		return engine.Launched{TmuxSession: name}, nil
	}
	// Whether tmux starts the session later, when it comes to itself, does not matter:
	// only one runner gets past the lock.
	h.log.WarnContext(ctx, "starting a run without a terminal", "execution", spec.ExecutionID, "error", err)
	return engine.Launched{Notice: "tmux does not work, the run has no terminal: " + err.Error()}, h.detached(argv)
}

// detached starts a runner in a session of its own, without a terminal.
func (h *Host) detached(argv []string) error {
	p := exec.Command(argv[0], argv[1:]...) //nolint:noctx // it outlives every context of ours
	p.Env = []string{}
	p.Dir = "/"
	p.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := p.Start(); err != nil {
		return err
	}
	h.children.add(p.Process)
	return nil
}

// children are runners that are our own child processes. They are not waited for,
// since they outlive us, but collected when they have ended.
type children struct {
	mu   sync.Mutex
	pids map[int]bool
}

func (c *children) add(p *os.Process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pids == nil {
		c.pids = map[int]bool{}
	}
	c.pids[p.Pid] = true
	_ = p.Release() // from here on reap alone looks after it
}

// reap collects those that have ended.
func (c *children) reap() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for pid := range c.pids {
		got, err := syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
		if got == pid || errors.Is(err, syscall.ECHILD) {
			delete(c.pids, pid)
		}
	}
}
