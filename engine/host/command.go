package host

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/proc"
	"github.com/threadmill/threadmill/engine/rundir"
)

// errNotStarted is what Do returns while no runner has shown up yet.
var errNotStarted = errors.New("its runner has not started yet")

// Do delivers a command to a runner and waits for its reply. An error means that the
// outcome is unknown and the same command may be delivered again; one that wraps
// engine.ErrRunnerLost means that there is no runner any more to deliver it to.
func (h *Host) Do(ctx context.Context, id string, cmd rundir.Command) (rundir.Reply, error) {
	kept := h.links.get(id)
	client, err := h.link(ctx, id)
	if err != nil {
		return rundir.Reply{}, fmt.Errorf("reach the runner: %w", err)
	}
	reply, err := client.Do(ctx, cmd)
	if err == nil {
		return reply, nil
	}
	h.links.drop(id, client)
	if client != kept || ctx.Err() != nil {
		return rundir.Reply{}, fmt.Errorf("deliver a command to the runner: %w", err)
	}
	// The connection was an old one and may have been broken for long. The runner
	// knows the command's id, so giving it twice does it once.
	if client, err = h.link(ctx, id); err != nil {
		return rundir.Reply{}, fmt.Errorf("reach the runner: %w", err)
	}
	if reply, err = client.Do(ctx, cmd); err != nil {
		h.links.drop(id, client)
		return rundir.Reply{}, fmt.Errorf("deliver a command to the runner: %w", err)
	}
	return reply, nil
}

// link returns the connection to a runner, making it where there is none.
func (h *Host) link(ctx context.Context, id string) (*rundir.Client, error) {
	if c := h.links.get(id); c != nil {
		return c, nil
	}
	dir, err := h.dir(id)
	if err != nil {
		return nil, err
	}
	info, ok, err := rundir.ReadInfo(dir)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, errNotStarted
	}
	c, _, err := rundir.Dial(ctx, info.Socket, id)
	switch {
	case err == nil:
		return h.links.put(id, c), nil
	case over(dir, info):
		return nil, fmt.Errorf("%w: %w", engine.ErrRunnerLost, err)
	}
	return nil, err
}

// over reports whether a runner that could not be dialled has ended.
func over(dir string, info rundir.Info) bool {
	_, ended, _ := rundir.ReadResult(dir)
	return ended || !proc.Alive(info.Pid, info.StartTime)
}

// links are the open connections to runners, by execution.
type links struct {
	mu     sync.Mutex
	open   map[string]*rundir.Client
	closed bool
}

// get returns the open connection to a runner, nil where there is none.
func (l *links) get(id string) *rundir.Client {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.open[id]
	if c == nil {
		return nil
	}
	select {
	case <-c.Done():
		delete(l.open, id)
		return nil
	default:
		return c
	}
}

// put keeps c and returns the connection to use: another one may have been faster.
func (l *links) put(id string, c *rundir.Client) *rundir.Client {
	l.mu.Lock()
	defer l.mu.Unlock()
	if kept := l.open[id]; kept != nil || l.closed {
		_ = c.Close()
		if kept != nil {
			return kept
		}
		return c // closed, so the caller's command fails
	}
	if l.open == nil {
		l.open = map[string]*rundir.Client{}
	}
	l.open[id] = c
	return c
}

// drop closes c, which is of no use any more; nil stands for whichever there is.
func (l *links) drop(id string, c *rundir.Client) {
	l.mu.Lock()
	kept := l.open[id]
	if c == nil {
		c = kept
	}
	if kept == c {
		delete(l.open, id)
	}
	l.mu.Unlock()
	if c != nil {
		_ = c.Close()
	}
}

func (l *links) close() {
	l.mu.Lock()
	open := l.open
	l.open, l.closed = nil, true
	l.mu.Unlock()
	for _, c := range open {
		_ = c.Close()
	}
}
