package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/threadmill/threadmill/engine/safety"
)

// getenv looks a variable up in the environment that the program was given. The last
// of several wins, as it does for the programs that we start.
func (a *app) getenv(name string) string {
	prefix := name + "="
	for _, entry := range slices.Backward(a.environ) {
		if value, ok := strings.CutPrefix(entry, prefix); ok {
			return value
		}
	}
	return ""
}

// variables is the environment by name.
func (a *app) variables() map[string]string {
	vars := make(map[string]string, len(a.environ))
	for _, entry := range a.environ {
		if name, value, ok := strings.Cut(entry, "="); ok {
			vars[name] = value
		}
	}
	return vars
}

// environWithout is the environment without some variables.
func (a *app) environWithout(names ...string) []string {
	return slices.DeleteFunc(slices.Clone(a.environ), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains(names, name)
	})
}

// invocation is how commands for this service are begun from the current directory: as
// the shell finds this program, and with the configuration that was named.
func (a *app) invocation() string {
	const name = "threadmill"
	self, err := os.Executable()
	if err != nil {
		return name
	}
	if path, err := safety.LookPath(name, a.getenv("PATH"), "/"); err == nil && sameFile(path, self) {
		self = name
	} else if dir, err := os.Getwd(); err == nil {
		if rel, err := filepath.Rel(dir, self); err == nil && filepath.IsLocal(rel) {
			self = "." + string(filepath.Separator) + rel
		}
	}
	if a.config != "" {
		self += " --config " + a.config
	}
	return self
}

func sameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
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
