package main

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/threadmill/threadmill/engine/safety"
)

// getenv looks a variable up in the environment that the program was given. The last
// of several wins, as it does for the programs that we start.
func (a *app) getenv(name string) string {
	prefix := name + "="
	for i := len(a.environ) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(a.environ[i], prefix); ok {
			return value
		}
	}
	return ""
}

// environWithout is the environment without some variables.
func (a *app) environWithout(names ...string) []string {
	return slices.DeleteFunc(slices.Clone(a.environ), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains(names, name)
	})
}

// lookTmux finds tmux.
func (a *app) lookTmux() (string, error) {
	path, err := safety.LookPath("tmux", a.getenv("PATH"), "/")
	if err != nil {
		return "", errors.New("tmux is not installed: " + tmuxHint)
	}
	return path, nil
}

// tmuxHint tells how to get tmux.
const tmuxHint = "install it with the system's package manager (apt-get install tmux, dnf install tmux, brew install tmux)"

// runBase is where the run directory goes, which holds the sockets: systemd's
// RuntimeDirectory, a home that was set for us, or else /tmp. Not XDG_RUNTIME_DIR: it is
// emptied when its user logs out, and a run has to outlive that. Not TMPDIR: it is long
// on macOS, and a socket's path has about a hundred bytes.
func (a *app) runBase() string {
	if dir, _, _ := strings.Cut(a.getenv("RUNTIME_DIRECTORY"), ":"); dir != "" {
		return dir
	}
	if home := a.getenv("THREADMILL_HOME"); home != "" {
		return filepath.Join(home, "run")
	}
	return "/tmp"
}
