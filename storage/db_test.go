package storage_test

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	_ "modernc.org/sqlite" // to look at the file with other eyes

	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/rundir"
	"github.com/threadmill/threadmill/storage"
	"github.com/threadmill/threadmill/storage/storetest"
)

// The test binary is its own child: these select what it does as one.
const (
	childMode = "THREADMILL_TEST_CHILD"
	childDir  = "THREADMILL_TEST_DIR"
)

func TestMain(m *testing.M) {
	switch os.Getenv(childMode) {
	case "load":
		os.Exit(child(func(ctx context.Context, db *storage.DB) error { return storetest.Load(ctx, db, os.Stdout) }))
	case "hold":
		os.Exit(child(func(ctx context.Context, _ *storage.DB) error {
			fmt.Println("locked")
			_, err := io.Copy(io.Discard, os.Stdin) // until the parent lets go
			return err
		}))
	}
	goleak.VerifyTestMain(m)
}

func child(do func(context.Context, *storage.DB) error) int {
	ctx := context.Background()
	db, err := storage.Open(ctx, os.Getenv(childDir))
	if err == nil {
		err = do(ctx, db)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// startChild runs this binary in another mode, on a data directory.
func startChild(t *testing.T, mode, dir string) (*exec.Cmd, io.WriteCloser, *bufio.Reader) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), childMode+"="+mode, childDir+"="+dir)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, in, bufio.NewReader(out)
}

func open(t *testing.T, dir string, opts ...storage.Option) *storage.DB {
	t.Helper()
	db, err := storage.Open(t.Context(), dir, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return db
}

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) engine.Store { t.Helper(); return open(t, t.TempDir()) })
}

// TestKilledWhileWriting kills a process in the middle of its commits, several times
// on one database, and finds nothing lost and nothing by halves.
func TestKilledWhileWriting(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for round := range 5 {
		cmd, _, out := startChild(t, "load", dir)
		var acked strings.Builder
		for range 200 + 137*round {
			line, err := out.ReadString('\n')
			if err != nil {
				t.Fatalf("the child ended by itself: %v", err)
			}
			acked.WriteString(line)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(&acked, out); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // killed
		checkKilled(t, dir, acked.String())
	}
}

func checkKilled(t *testing.T, dir, acked string) {
	t.Helper()
	db, err := storage.Open(t.Context(), dir)
	if err != nil {
		t.Fatalf("open after a kill: %v", err)
	}
	storetest.CheckLoad(t, db, strings.NewReader(acked))
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	raw := look(t, dir)
	if got := scan[string](t, raw, "PRAGMA integrity_check"); got != "ok" {
		t.Errorf("integrity check: %s", got)
	}
	if n := scan[int](t, raw, "SELECT count(*) FROM pragma_foreign_key_check"); n != 0 {
		t.Errorf("%d rows point nowhere", n)
	}
	if err := raw.Close(); err != nil {
		t.Fatal(err)
	}
}

// look opens the file without the package under test.
func look(t *testing.T, dir string) *sql.DB {
	t.Helper()
	raw, err := sql.Open("sqlite", filepath.Join(dir, "threadmill.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { raw.Close() })
	return raw
}

func scan[T any](t *testing.T, raw *sql.DB, query string) (v T) {
	t.Helper()
	if err := raw.QueryRowContext(t.Context(), query).Scan(&v); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v
}

func TestSecondProcessRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd, in, out := startChild(t, "hold", dir)
	if line, err := out.ReadString('\n'); err != nil || line != "locked\n" {
		t.Fatalf("the child said %q, %v", line, err)
	}
	_, err := storage.Open(t.Context(), dir)
	if engine.CodeOf(err) != engine.CodeConflict {
		t.Fatalf("a locked directory: %v", err)
	}
	for _, part := range []string{dir, strconv.Itoa(cmd.Process.Pid), "stop"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
	if err := cmd.Process.Kill(); err != nil { // it gives nothing back itself
		t.Fatal(err)
	}
	in.Close()
	_ = cmd.Wait()
	open(t, dir)
}

func TestLockIsSeparate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, err := storage.AcquireLock(dir)
	if err != nil {
		t.Fatal(err)
	}
	db, err := storage.Open(t.Context(), dir, storage.WithLock(l))
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := storage.AcquireLock(dir); engine.CodeOf(err) != engine.CodeConflict {
		t.Errorf("closing the database gave the caller's lock away: %v", err)
	}
	for range 2 {
		if err := l.Release(); err != nil {
			t.Errorf("release: %v", err)
		}
	}
	open(t, dir)
}

func TestNobodyElseCanRead(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "deep", "data")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "threadmill.db"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	db := open(t, dir)
	if err := db.AddAudit(t.Context(), engine.Audit{Action: "test"}); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestFoldersOfOthersStayOpen(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "home")
	if err := os.MkdirAll(filepath.Join(dir, "projects"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := storage.AcquireLock(dir); engine.CodeOf(err) != engine.CodeConflict || !strings.Contains(err.Error(), "data_dir") {
		t.Errorf("a folder that others use: %v", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o755 {
		t.Errorf("it has mode %v afterwards", info.Mode())
	}
}

func TestNewerDatabaseRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := mustOpen(t, dir).Close(); err != nil {
		t.Fatal(err)
	}
	raw := look(t, dir)
	if _, err := raw.ExecContext(t.Context(), "PRAGMA user_version = 99"); err != nil {
		t.Fatal(err)
	}
	raw.Close()
	_, err := storage.Open(t.Context(), dir)
	if engine.CodeOf(err) == "" || err == nil {
		t.Fatalf("a newer database: %v", err)
	}
	for _, part := range []string{"99", "versions up to ", "install", "threadmill.db"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
	if got := scan[int](t, look(t, dir), "PRAGMA user_version"); got != 99 {
		t.Errorf("the version is %d afterwards", got)
	}
	if l, err := storage.AcquireLock(dir); err != nil {
		t.Errorf("a refused database stays locked: %v", err)
	} else if err := l.Release(); err != nil {
		t.Error(err)
	}
}

func mustOpen(t *testing.T, dir string) *storage.DB {
	t.Helper()
	db, err := storage.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func TestReopen(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a?b#c %41") // a path is no part of a URL
	db := mustOpen(t, dir)
	e, _, err := db.CreateExecution(t.Context(), engine.NewExecution{
		Execution: engine.Execution{ID: rundir.NewID(), CreatedAt: time.Now()}, Task: engine.Task{ID: "t"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := db.Close(); err != nil {
			t.Fatalf("close: %v", err)
		}
	}
	if err := db.AddAudit(t.Context(), engine.Audit{Action: "late"}); err == nil {
		t.Error("a closed database takes writes")
	}
	if _, err := os.Stat(filepath.Join(dir, "threadmill.db-wal")); !os.IsNotExist(err) {
		t.Errorf("closing left the write-ahead log: %v", err)
	}
	got, err := open(t, dir).Execution(t.Context(), e.ID)
	if err != nil || got.Number != e.Number {
		t.Errorf("after reopening: #%d, %v", got.Number, err)
	}
}

func TestClock(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	db := open(t, t.TempDir(), storage.WithClock(func() time.Time { return now }))
	if err := db.AddAudit(t.Context(), engine.Audit{Action: "test"}); err != nil {
		t.Fatal(err)
	}
	rows, err := db.AuditTrail(t.Context(), engine.AuditFilter{})
	if err != nil || !rows[0].At.Equal(now) {
		t.Errorf("%v, %v", rows, err)
	}
}
