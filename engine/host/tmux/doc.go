// Package tmux drives one private tmux server: its own socket, its own
// configuration, an empty environment. It starts detached sessions that run a given
// argv, tells which exist, and ends them; every call is bounded in time, because a
// terminal is a view and nothing may hang on it.
//
// Commands go through one control-mode client that stays attached to a small session
// of our own, so starting a run costs no fork of a tmux client; where that client
// cannot be had, each command is a process of its own.
//
// The package knows neither executions nor runners.
package tmux
