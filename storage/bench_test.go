package storage_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/rundir"
	"github.com/threadmill/threadmill/storage"
)

func BenchmarkCommit(b *testing.B) {
	for _, writers := range []int{1, 8, 64} {
		b.Run(strconv.Itoa(writers), func(b *testing.B) {
			ctx := b.Context()
			db, err := storage.Open(ctx, b.TempDir())
			if err != nil {
				b.Fatal(err)
			}
			defer db.Close()
			id := rundir.NewID()
			n := engine.NewExecution{Execution: engine.Execution{ID: id, TaskID: "t", CreatedAt: time.Now()}, Task: engine.Task{ID: "t"}}
			if _, _, err := db.CreateExecution(ctx, n); err != nil {
				b.Fatal(err)
			}
			if _, err := db.Transition(ctx, engine.Change{ID: id, To: engine.Running, At: time.Now()}); err != nil {
				b.Fatal(err)
			}
			b.SetParallelism(max(1, writers/2))
			b.ResetTimer()
			if writers == 1 {
				for i := range b.N {
					if err := db.Commit(ctx, engine.Progress{ID: id, Cursor: rundir.Cursor{Seq: int64(i), Offset: int64(i)}, Activity: agent.Working, LogBytes: int64(i)}); err != nil {
						b.Fatal(err)
					}
				}
				return
			}
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := db.Commit(ctx, engine.Progress{ID: id, Cursor: rundir.Cursor{Seq: 1, Offset: 1}, Activity: agent.Working, LogBytes: 7}); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}
