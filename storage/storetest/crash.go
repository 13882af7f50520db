package storetest

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/threadmill/threadmill/engine"
)

// Load writes to a store without pause until ctx ends, from several goroutines. Each
// runs an execution of its own: for entry n it stores message n, and then, in one
// commit, the cursor n, an open ask n and that message n was handed over. What the
// store has acknowledged is written to acked, a line for each: whoever kills this
// process can hold the store against that with [CheckLoad].
func Load(ctx context.Context, s engine.Store, acked io.Writer) error {
	const loops = 4
	var (
		mu   sync.Mutex
		wg   sync.WaitGroup
		errs = make(chan error, loops)
	)
	report := func(id string, seq int64) error {
		mu.Lock()
		defer mu.Unlock()
		_, err := fmt.Fprintf(acked, "%s %d\n", id, seq)
		return err
	}
	for range loops {
		wg.Go(func() { errs <- load(ctx, s, report) })
	}
	wg.Wait()
	return <-errs
}

func load(ctx context.Context, s engine.Store, report func(string, int64) error) error {
	e, _, err := s.CreateExecution(ctx, request())
	if err == nil {
		_, err = s.Transition(ctx, engine.Change{ID: e.ID, To: engine.Running, At: start()})
	}
	for seq := int64(1); err == nil; seq++ {
		id := strconv.FormatInt(seq, 10)
		if _, _, err = s.AddCommand(ctx, message(e, id), nil); err != nil {
			break
		}
		if err = s.Commit(ctx, engine.Progress{
			ID: e.ID, Cursor: at(seq), LogLines: seq, Handed: []string{id}, Asks: []engine.Approval{openAsk(id)},
		}); err == nil {
			err = report(e.ID, seq)
		}
	}
	return err
}

// CheckLoad holds a store against what a killed [Load] was told: nothing that was
// acknowledged is missing, and no commit was stored by halves. It ends the loads'
// executions, so that the next one begins anew.
func CheckLoad(t *testing.T, s engine.Store, acked io.Reader) {
	t.Helper()
	text, err := io.ReadAll(acked)
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]int64{}
	for line := range strings.Lines(string(text)) {
		id, seq, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if n, err := strconv.ParseInt(seq, 10, 64); err == nil && strings.HasSuffix(line, "\n") {
			told[id] = n
		}
	}
	active, err := s.Active(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(told) == 0 || len(active) < len(told) {
		t.Fatalf("%d executions were acknowledged, %d are there", len(told), len(active))
	}
	for _, e := range active {
		checkLoaded(t, s, e, told[e.ID])
		change(t, s, engine.Change{ID: e.ID, To: endOf(e), At: start()})
	}
}

func endOf(e engine.Execution) engine.Status {
	if e.Status == engine.Queued {
		return engine.Failed
	}
	return engine.Succeeded
}

func checkLoaded(t *testing.T, s engine.Store, e engine.Execution, told int64) {
	t.Helper()
	if e.Cursor.Seq < told || e.Cursor != at(e.Cursor.Seq) || e.LogLineCount != e.Cursor.Seq {
		t.Errorf("#%d stands at %+v with %d lines; entry %d was acknowledged", e.Number, e.Cursor, e.LogLineCount, told)
	}
	delivered, all := int64(0), commands(t, s, e.ID)
	for _, c := range all {
		if c.State == engine.Handed {
			delivered++
		}
	}
	asks := int64(len(approvals(t, s, engine.ApprovalFilter{ExecutionID: e.ID})))
	if delivered != e.Cursor.Seq || asks != e.Cursor.Seq || int64(len(all))-delivered > 1 {
		t.Errorf("#%d stands at entry %d with %d of %d messages handed over and %d asks", e.Number, e.Cursor.Seq, delivered, len(all), asks)
	}
	if k := task(t, s, e.TaskID); k.Status != engine.InProgress {
		t.Errorf("the task of #%d is %s", e.Number, k.Status)
	}
}
