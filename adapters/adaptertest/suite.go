package adaptertest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/threadmill/threadmill/engine/agent"
)

// scenario is one thing that an adapter has to get right.
type scenario struct {
	name  string
	trait func(agent.Traits) bool // whether it is declared; nil: there is no trait for it
	given func(Subject) bool      // whether the subject says how to provoke it; nil: nothing to say
	run   func(*testing.T, Subject)
}

// The results of a scenario.
const (
	resultOK          = "ok"
	resultUnsupported = "unsupported (as declared)"
	resultFailed      = "FAILED"
)

// Run runs the suite and logs a table of its results. The test that calls it must not
// be parallel: goroutines that are left at the end are taken for the adapter's.
func Run(t *testing.T, s Subject) {
	t.Helper()
	if s.Patience == 0 {
		s.Patience = time.Minute
	}
	before := goleak.IgnoreCurrent()
	r := &report{results: map[string]string{}}
	t.Run("scenarios", func(t *testing.T) {
		for _, sc := range scenarios(s) {
			t.Run(sc.name, func(t *testing.T) {
				t.Parallel()
				r.note(sc.name, resultFailed) // unless it comes to its end
				r.note(sc.name, play(t, sc, s))
			})
		}
	})
	r.note("no goroutine is left", resultOK)
	if err := goleak.Find(before); err != nil {
		r.note("no goroutine is left", resultFailed)
		t.Errorf("goroutines are left: %v", err)
	}
	t.Logf("conformance of %T:\n%s", s.Adapter, r)
}

// scenarios lists all that the suite has for s.
func scenarios(s Subject) []scenario {
	return slices.Concat(lifeScenarios(), endScenarios(s), talkScenarios(), askScenarios(), sessionScenarios(), hostileScenarios())
}

func play(t *testing.T, sc scenario, s Subject) string {
	t.Helper()
	declared := sc.trait != nil && sc.trait(s.Adapter.Traits())
	given := sc.given == nil || sc.given(s)
	switch {
	case sc.trait != nil && !declared, !given && !declared:
		return resultUnsupported
	case !given:
		t.Fatal("the adapter declares this but the subject does not say how to provoke it")
	}
	sc.run(t, s)
	if t.Failed() {
		return resultFailed
	}
	return resultOK
}

// report collects results.
type report struct {
	mu      sync.Mutex
	results map[string]string
}

func (r *report) note(name, result string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results[name] = result
}

// String is the table, for people.
func (r *report) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(r.results)) {
		fmt.Fprintf(&b, "  %-44s %s\n", name, r.results[name])
	}
	return b.String()
}
