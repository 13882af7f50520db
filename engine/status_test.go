package engine

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTransitions(t *testing.T) {
	t.Parallel()
	want := map[Status][]Status{
		Queued:     {Running, Cancelling, Failed},
		Running:    {Cancelling, Succeeded, Failed, TimedOut},
		Cancelling: {Cancelled},
	}
	for _, from := range Statuses() {
		var got []Status
		for _, to := range Statuses() {
			if from.CanBecome(to) {
				got = append(got, to)
			}
		}
		if diff := cmp.Diff(want[from], got); diff != "" {
			t.Errorf("from %s (-want +got):\n%s", from, diff)
		}
		if from.Ended() && len(got) > 0 {
			t.Errorf("%s has ended and may still become %v", from, got)
		}
		if from.Ended() && from.Live() {
			t.Errorf("%s is both ended and live", from)
		}
		if !from.Valid() {
			t.Errorf("%s is not valid", from)
		}
	}
	if Status("done").Valid() {
		t.Error("an unknown status is valid")
	}
}
