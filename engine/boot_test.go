package engine

import (
	"testing"

	"github.com/threadmill/threadmill/engine/rundir"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	ended := &rundir.Result{}
	tests := []struct {
		name   string
		status Status
		begun  bool
		s      Sighting
		want   Action
	}{
		{"a result is the truth, whatever else there is", Running, false, Sighting{Result: ended, Info: true, Alive: true, Answer: true, Pane: "p"}, ActFinalise},
		{"a result also settles a cancel", Cancelling, false, Sighting{Result: ended, Info: true}, ActFinalise},
		{"the runner answers", Running, false, Sighting{Spec: true, Info: true, Answer: true, Alive: true, Pane: "p"}, ActFollow},
		{"the runner answers, its pane is gone", Running, false, Sighting{Spec: true, Info: true, Answer: true, Alive: true}, ActFollow},
		{"alive without an answer is not dead", Running, false, Sighting{Spec: true, Info: true, Alive: true, Pane: "p"}, ActFollow},
		{"an answer without a process to be seen is not dead", Running, false, Sighting{Spec: true, Info: true, Answer: true}, ActFollow},
		{"the same while cancelling", Cancelling, false, Sighting{Spec: true, Info: true, Alive: true}, ActFollow},
		{"the runner is gone", Running, false, Sighting{Spec: true, Info: true}, ActLost},
		{"the runner is gone, only the pane is left", Running, false, Sighting{Spec: true, Info: true, Pane: "p"}, ActLost},
		{"the runner is gone while cancelling", Cancelling, false, Sighting{Spec: true, Info: true}, ActLost},
		{"a pane without a runner yet", Running, false, Sighting{Spec: true, Pane: "p"}, ActWait},
		{"a pane without a runner yet, cancelled", Cancelling, false, Sighting{Spec: true, Pane: "p"}, ActWait},
		{"claimed and killed before the directory was made", Running, false, Sighting{}, ActLaunch},
		{"claimed and killed before the pane was made", Running, false, Sighting{Spec: true}, ActLaunch},
		{"it had begun, its files were deleted", Running, true, Sighting{}, ActLost},
		{"it had begun, all but its spec was deleted", Running, true, Sighting{Spec: true, Pane: "p"}, ActLost},
		{"it had begun, its files were deleted, cancelled", Cancelling, true, Sighting{}, ActLost},
		{"it has begun and is there", Running, true, Sighting{Spec: true, Info: true, Alive: true}, ActFollow},
		{"cancelled before it started", Cancelling, false, Sighting{Spec: true}, ActDrop},
		{"cancelled before anything was there", Cancelling, false, Sighting{}, ActDrop},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := Decide(tt.status, tt.begun, tt.s); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}
