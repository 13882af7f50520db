package main

import (
	"errors"
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
