package storetest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/agent"
)

const racers = 50

func raceTests() map[string]func(*testing.T, engine.Store) {
	return map[string]func(*testing.T, engine.Store){
		"one start":                  oneStart,
		"one end":                    oneEnd,
		"one decision":               oneDecision,
		"one execution per key":      oneKey,
		"one command per id":         oneCommand,
		"the last place":             lastPlace,
		"one execution of a task":    oneOfTheTask,
		"numbers are gapless":        gaplessNumbers,
		"commits of many executions": manyCommits,
		"readers and writers":        readersAndWriters,
		"a cancelled context":        cancelledContext,
	}
}

func oneStart(t *testing.T, s engine.Store) {
	e := queued(t, s)
	wantWinners(t, race(racers, func(int) error {
		_, err := s.Transition(t.Context(), engine.Change{ID: e.ID, To: engine.Running, At: after(time.Minute)})
		return err
	}), 1)
}

func oneEnd(t *testing.T, s engine.Store) {
	e := running(t, s)
	ends := []engine.Status{engine.Succeeded, engine.Failed, engine.TimedOut, engine.Cancelling}
	wantWinners(t, race(racers, func(i int) error {
		_, err := s.Transition(t.Context(), engine.Change{ID: e.ID, To: ends[i%len(ends)], At: after(time.Minute)})
		return err
	}), 1)
}

func oneDecision(t *testing.T, s engine.Store) {
	open := asked(t, s)
	wantWinners(t, race(racers, func(i int) error {
		got, err := s.Decide(t.Context(), decision(open, numbered("slack:U", i)))
		if got.State != agent.AskDecided {
			return errors.New("the approval was not returned as decided")
		}
		return err
	}), 1)
	wantEqual(t, "orders", len(commands(t, s, open.ExecutionID)), 1)
}

func oneKey(t *testing.T, s engine.Store) {
	var mu sync.Mutex
	ids, made := map[string]int{}, 0
	for _, err := range race(racers, func(int) error {
		n := request(func(n *engine.NewExecution) { n.Execution.IdempotencyKey = "same" })
		e, created, err := s.CreateExecution(t.Context(), n)
		mu.Lock()
		defer mu.Unlock()
		ids[e.ID]++
		if created {
			made++
		}
		return err
	}) {
		if err != nil {
			t.Error(err)
		}
	}
	if len(ids) != 1 || made != 1 {
		t.Errorf("%d ids, %d created", len(ids), made)
	}
}

func oneCommand(t *testing.T, s engine.Store) {
	e := running(t, s)
	var mu sync.Mutex
	made := 0
	race(racers, func(int) error {
		_, created, err := s.AddCommand(t.Context(), message(e, "same"), nil)
		mu.Lock()
		defer mu.Unlock()
		if created {
			made++
		}
		return err
	})
	wantEqual(t, "created", made, 1)
	wantEqual(t, "stored", len(commands(t, s, e.ID)), 1)
}

func lastPlace(t *testing.T, s engine.Store) {
	wantWinners(t, race(racers, func(int) error {
		_, _, err := s.CreateExecution(t.Context(), request(func(n *engine.NewExecution) { n.RejectAt = 3 }))
		return err
	}), 3)
}

func oneOfTheTask(t *testing.T, s engine.Store) {
	first := become(t, s, queued(t, s), engine.Running, engine.Succeeded)
	wantWinners(t, race(racers, func(int) error {
		_, _, err := s.CreateExecution(t.Context(), request(func(n *engine.NewExecution) {
			n.Task, n.Execution.TaskID, n.TaskFree = engine.Task{}, first.TaskID, true
		}))
		return err
	}), 1)
}

func gaplessNumbers(t *testing.T, s engine.Store) {
	numbers := make([]int64, racers)
	for _, err := range race(racers, func(i int) error {
		e, _, err := s.CreateExecution(t.Context(), request())
		numbers[i] = e.Number
		return err
	}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(numbers)
	for i, n := range numbers {
		if n != int64(i+1) {
			t.Fatalf("the numbers are %v", numbers)
		}
	}
}

// manyCommits has good and refused writes share their transactions.
func manyCommits(t *testing.T, s engine.Store) {
	var live []engine.Execution
	for range 20 {
		live = append(live, running(t, s))
	}
	const rounds = 50
	for _, err := range race(len(live), func(i int) error {
		for seq := int64(1); seq <= rounds; seq++ {
			if err := s.Commit(t.Context(), engine.Progress{ID: live[i].ID, Cursor: at(seq), LogLines: seq}); err != nil {
				return err
			}
			stale := engine.Progress{ID: live[i].ID, Cursor: at(seq - 1), LogLines: 1 << 30}
			if err := s.Commit(t.Context(), stale); engine.CodeOf(err) != engine.CodeConflict {
				return errors.New("a commit behind the cursor was taken")
			}
		}
		return nil
	}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, e := range live {
		if got := get(t, s, e.ID); got.Cursor != at(rounds) || got.LogLineCount != rounds {
			t.Errorf("#%d stands at %+v with %d lines", got.Number, got.Cursor, got.LogLineCount)
		}
	}
}

// readersAndWriters has every kind of read go on at once, more than any pool is wide,
// while others write. A page and its total must come from one moment.
func readersAndWriters(t *testing.T, s engine.Store) {
	e := running(t, s)
	for _, err := range race(racers, func(i int) error {
		if i%5 == 0 {
			_, _, err := s.CreateExecution(t.Context(), request(inTask(e.TaskID)))
			return err
		}
		page, total, err := s.Executions(t.Context(), engine.Filter{TaskID: e.TaskID, PageSize: 200})
		if err == nil && len(page) != total {
			err = errors.New("a page and its total differ")
		}
		return errors.Join(err, readAll(t.Context(), s, e))
	}) {
		if err != nil {
			t.Error(err)
		}
	}
}

func readAll(ctx context.Context, s engine.Store, e engine.Execution) error {
	_, err1 := s.Execution(ctx, e.ID)
	_, err2 := s.Active(ctx)
	_, err3 := s.Commands(ctx, e.ID)
	_, _, err4 := s.Tasks(ctx, "", 1, 10)
	_, err5 := s.AuditTrail(ctx, engine.AuditFilter{})
	return errors.Join(err1, err2, err3, err4, err5)
}

func cancelledContext(t *testing.T, s engine.Store) {
	e := queued(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Transition(ctx, engine.Change{ID: e.ID, To: engine.Running, At: start()})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a write: %v", err)
	}
	if _, err := s.Active(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a read: %v", err)
	}
	wantEqual(t, "unchanged", get(t, s, e.ID), e)
}
