package runner

import (
	"testing"

	"github.com/threadmill/threadmill/engine/rundir"
)

// TestPingsAreNotKept: a run lives for weeks and is asked every half a minute whether it
// is there.
func TestPingsAreNotKept(t *testing.T) {
	t.Parallel()
	r := newRun(Options{}, rundir.Spec{})
	for range 100 {
		cmd := rundir.Command{ID: rundir.NewID(), Op: rundir.OpPing}
		r.obey(cmd, func(rep rundir.Reply) {
			if !rep.OK || rep.ID != cmd.ID {
				t.Errorf("the answer is %+v", rep)
			}
		})
	}
	if n := len(r.orders); n != 0 {
		t.Errorf("%d orders are kept", n)
	}
}
