package engine

// Action is what to do about a live execution that nobody follows: after a start of
// the service, or when following it ended without a result.
type Action string

// The actions of [Decide].
const (
	ActFinalise Action = "finalise" // it has ended: read what is left of it and settle it
	ActFollow   Action = "follow"   // its runner is there: read on
	ActWait     Action = "wait"     // a runner may be starting: look again
	ActLaunch   Action = "launch"   // it was claimed and never started
	ActLost     Action = "lost"     // its runner is gone: clean up and say so
	ActDrop     Action = "drop"     // it was cancelled before it ever started
)

// Decide says what to do about an execution from its status, whether anything was ever
// read of it, and what there is of it. It is pure, so the whole table can be tested. A
// runner that does not answer is not dead: only a missing process is proof. One that had
// begun is never launched again, even where somebody has deleted its files.
func Decide(status Status, begun bool, s Sighting) Action {
	switch {
	case s.Result != nil:
		return ActFinalise
	case s.Info && (s.Answer || s.Alive):
		return ActFollow
	case s.Info, begun && !s.Alive:
		return ActLost
	case s.Pane != "" || s.Alive:
		return ActWait
	case status == Cancelling:
		return ActDrop
	}
	return ActLaunch
}
