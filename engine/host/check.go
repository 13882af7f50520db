package host

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// Check reports whether runs get a terminal here: tmux is there, new enough, and its
// server answers. Runs work without it. It also makes sure of the run directory,
// without which nothing works.
func (h *Host) Check(ctx context.Context) (detail string, err error) {
	info, err := os.Lstat(h.o.RunDir)
	if err != nil {
		return "", fmt.Errorf("look at the run directory: %w; restart threadmill", err)
	}
	if err := checkRunDir(h.o.RunDir, info); err != nil {
		return "", err
	}
	server := h.tmux()
	if server == nil {
		return "", errors.New("tmux is not installed, runs have no terminal; install it (apt-get install tmux, brew install tmux)")
	}
	version, err := server.Version(ctx)
	if err != nil {
		return "", err
	}
	names, err := server.Sessions(ctx)
	if err != nil {
		return "", fmt.Errorf("runs have no terminal: %w", err)
	}
	return fmt.Sprintf("tmux %s (%s), %d sessions", version, server.Path(), len(names)), nil
}
