// Package claude drives the Claude Code CLI: stream-json both ways, with the control
// protocol that goes over the same pipes for permissions, questions and interrupts. It
// knows this one CLI, as it was measured (docs/CLAUDE_CODE.md), and nothing of queues, chat
// or the service.
//
// A line that is read becomes an event (wire.go), an event becomes entries (teller.go
// and the files beside it, all of it plain state that tests feed with recorded lines),
// and a session (session.go) is the goroutines between that and the process.
package claude
