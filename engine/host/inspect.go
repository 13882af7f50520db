package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/proc"
	"github.com/threadmill/threadmill/engine/rundir"
)

// Inspect looks at what there is of an execution.
func (h *Host) Inspect(ctx context.Context, id string) (engine.Sighting, error) {
	var s engine.Sighting
	dir, err := h.dir(id)
	if err != nil {
		return s, err
	}
	if found, err := findResult(dir, &s); err != nil || found {
		return s, err
	}
	info, ok, err := rundir.ReadInfo(dir)
	if err != nil {
		return s, err
	}
	if ok {
		s.Info = true
		s.Alive = proc.Alive(info.Pid, info.StartTime)
		s.Answer = s.Alive && h.answers(ctx, id)
	}
	s.Pane = h.pane(ctx, id)
	if s.Info && !s.Alive {
		// The result is the last thing that a runner writes: it may have come between
		// our look at it and our look at the process.
		_, err = findResult(dir, &s)
	}
	return s, err
}

func findResult(dir string, s *engine.Sighting) (bool, error) {
	res, ok, err := rundir.ReadResult(dir)
	if err != nil {
		return false, err
	}
	if ok {
		s.Result = &res
	}
	_, err = os.Stat(filepath.Join(dir, rundir.SpecFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, fmt.Errorf("look for the execution's spec: %w", err)
	}
	s.Spec = err == nil
	return ok, nil
}

// answers reports whether the runner says hello in time. The connection is kept for
// the commands that will follow.
func (h *Host) answers(ctx context.Context, id string) bool {
	ctx, cancel := context.WithTimeout(ctx, h.bounds.hello)
	defer cancel()
	_, err := h.link(ctx, id)
	return err == nil
}

// pane is the name of the execution's session; empty where there is none, and where
// tmux cannot tell.
func (h *Host) pane(ctx context.Context, id string) string {
	server := h.tmux()
	if server == nil {
		return ""
	}
	name := session(id)
	if there, err := server.HasSession(ctx, name); err != nil || !there {
		return ""
	}
	return name
}

// panes lists the tmux sessions; nil without tmux. A list is good for a while:
// hundreds of followers look at the same one.
func (h *Host) panes(ctx context.Context) (map[string]bool, error) {
	server := h.tmux()
	if server == nil {
		return nil, nil
	}
	asked := time.Now()
	h.mu.Lock()
	if asked.Sub(h.listed) < h.bounds.panes/2 {
		defer h.mu.Unlock()
		return h.sessions, nil
	}
	h.mu.Unlock()
	names, err := server.Sessions(ctx)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	h.sessions, h.listed = names, asked
	h.mu.Unlock()
	return names, nil
}
