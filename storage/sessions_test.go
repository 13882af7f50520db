package storage_test

import (
	"testing"
	"time"

	"github.com/threadmill/threadmill/storage"
	"github.com/threadmill/threadmill/storage/storetest"
)

func TestSessions(t *testing.T) {
	t.Parallel()
	storetest.RunSessions(t, func(t *testing.T, now func() time.Time) storetest.SessionStore {
		t.Helper()
		db, err := storage.Open(t.Context(), t.TempDir(), storage.WithClock(now))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
		return db
	})
}
