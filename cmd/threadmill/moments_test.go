package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/threadmill/threadmill/engine"
)

// momentCapabilities leave a line in a file each time they really run.
func momentCapabilities() map[string]string {
	arg := "args_schema: {type: object, required: [file], additionalProperties: false, properties: {file: {type: string}}}\n"
	return map[string]string{
		"once":   capability("once", `[sh, -c, "echo ran >> $0", "{{file}}"]`, arg),
		"forks":  capability("forks", `[sh, -c, "echo ran >> $0; setsid sleep 3600 & trap '' TERM; sleep 3600", "{{file}}"]`, arg),
		"sleeps": capability("sleeps", `[sleep, "3600"]`, ""),
	}
}

// TestServeKilledWhileStarting kills the service at any moment between an accepted
// request and the end of its run: each runs exactly once.
func TestServeKilledWhileStarting(t *testing.T) {
	t.Parallel()
	startUnderKills(t, 8, 6)
}

func startUnderKills(t *testing.T, rounds, batch int) {
	t.Helper()
	s := newService(t, endConfig, momentCapabilities())
	s.start()
	var ids []string
	for round := range rounds {
		ids = append(ids, s.submitMany("once", round, batch)...)
		time.Sleep(time.Duration(rand.IntN(60)) * time.Millisecond)
		s.kill()
		s.start()
	}
	for i, id := range ids {
		if x := s.wait(id); x.Status != engine.Succeeded {
			t.Errorf("#%d ended as %s (%s): %s", x.Number, x.Status, x.Reason, x.Error)
		}
		if n := s.ran(i/batch, i%batch); n != 1 {
			t.Errorf("execution %s ran %d times", id, n)
		}
	}
}

// submitMany starts executions that each have a file of their own. They carry a key,
// so that asking again, after an answer that never came, is the same request.
func (s *service) submitMany(capability string, round, batch int) []string {
	s.Helper()
	var ids []string
	for i := range batch {
		x := s.submit(map[string]any{
			"capability": capability, "args": map[string]any{"file": s.ranFile(round, i)},
			"idempotencyKey": fmt.Sprintf("%d-%d", round, i),
		})
		ids = append(ids, x.ID)
	}
	return ids
}

func (s *service) ranFile(round, i int) string {
	return filepath.Join(s.work(), fmt.Sprintf("ran-%d-%d", round, i))
}

// ran is how many times an execution really ran.
func (s *service) ran(round, i int) int {
	s.Helper()
	b, err := os.ReadFile(s.ranFile(round, i))
	if err != nil && !os.IsNotExist(err) {
		s.Fatal(err)
	}
	return strings.Count(string(b), "ran\n")
}

// TestServeKilledWhileCancelling cancels executions at any moment of their start and
// kills the service right after: each ends as cancelled, and nothing of it is left.
func TestServeKilledWhileCancelling(t *testing.T) {
	t.Parallel()
	cancelUnderKills(t, 4, 5)
}

func cancelUnderKills(t *testing.T, rounds, batch int) {
	t.Helper()
	s := newService(t, endConfig, momentCapabilities())
	s.start()
	var ids []string
	for round := range rounds {
		now := s.submitMany("forks", round, batch)
		ids = append(ids, now...)
		time.Sleep(time.Duration(rand.IntN(120)) * time.Millisecond)
		for _, id := range now {
			s.call("POST", "/api/executions/"+id+"/cancel", map[string]any{}, nil)
		}
		time.Sleep(time.Duration(rand.IntN(40)) * time.Millisecond)
		s.kill()
		s.start()
	}
	for i, id := range ids {
		x := s.wait(id)
		if x.Status != engine.Cancelled || x.Left != 0 {
			t.Errorf("#%d ended as %s with %d processes left", x.Number, x.Status, x.Left)
		}
		if pids := left(t, id); len(pids) > 0 {
			t.Errorf("#%d was called cancelled and has processes: %v", x.Number, pids)
		}
		if n := s.ran(i/batch, i%batch); n > 1 {
			t.Errorf("#%d ran %d times", x.Number, n)
		}
	}
}
