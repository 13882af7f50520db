package storage

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/threadmill/threadmill/engine"
)

func openTest(t *testing.T) *DB {
	t.Helper()
	db, err := Open(t.Context(), t.TempDir())
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

func TestReadersCannotWrite(t *testing.T) {
	t.Parallel()
	db := openTest(t)
	for range 2 * readers {
		_, err := db.reader.db.ExecContext(t.Context(), `DELETE FROM audit`)
		if err == nil || !strings.Contains(err.Error(), "readonly") {
			t.Fatalf("a reader wrote: %v", err)
		}
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	db := openTest(t)
	for pragma, want := range map[string]string{
		"journal_mode": "wal", "synchronous": "1", "foreign_keys": "1", "busy_timeout": "5000", "query_only": "0",
	} {
		got, _, err := first(t.Context(), db.writer.tx, itself[string], "PRAGMA "+pragma)
		if err != nil || got != want {
			t.Errorf("%s of the writer is %s, %v", pragma, got, err)
		}
	}
	for pragma, want := range map[string]string{"foreign_keys": "1", "busy_timeout": "5000", "query_only": "1"} {
		got, _, err := first(t.Context(), db.reader, itself[string], "PRAGMA "+pragma)
		if err != nil || got != want {
			t.Errorf("%s of a reader is %s, %v", pragma, got, err)
		}
	}
}

// TestEveryQueryHasAnIndex asks SQLite for its plans: none may read a whole table.
func TestEveryQueryHasAnIndex(t *testing.T) {
	t.Parallel()
	db := openTest(t)
	where := func(f engine.Filter) string { w, _ := executionFilter(f); return w }
	asked := func(f engine.ApprovalFilter) string { w, _ := approvalFilter(f); return w }
	audited := func(f engine.AuditFilter) string { w, _ := auditFilter(f); return w }
	ruled := func(f engine.RuleFilter) string { w, _ := ruleFilter(f); return w }
	statuses := []engine.Status{engine.Queued}
	for name, query := range map[string]string{
		"by id":            selectExecutions + ` WHERE id = ?`,
		"by number":        selectExecutions + ` WHERE number = ?`,
		"by key":           selectExecutions + ` WHERE idempotency_key = ?`,
		"active":           selectExecutions + ` WHERE ` + isActive + ` ORDER BY number`,
		"of a task":        selectExecutions + where(engine.Filter{TaskID: "t"}) + ` ORDER BY number DESC LIMIT ? OFFSET ?`,
		"of an agent":      selectExecutions + where(engine.Filter{AgentID: "a"}) + ` ORDER BY number DESC LIMIT ? OFFSET ?`,
		"of statuses":      `SELECT count(*) FROM executions` + where(engine.Filter{Statuses: statuses}),
		"busy":             `SELECT count(*) FROM executions WHERE ` + isActive + ` AND agent_id = ? AND activity <> 'idle'`,
		"old":              selectExecutions + ` WHERE ended_at IS NOT NULL AND logs_deleted = 0 AND ended_at < ? ORDER BY ended_at LIMIT ?`,
		"task busy":        `SELECT 1 FROM executions WHERE task_id = ? AND ` + isActive,
		"a command":        `SELECT 1 FROM commands WHERE execution_id = ? AND id = ?`,
		"pending commands": `SELECT 1 FROM commands WHERE execution_id = ? AND state IN ('pending', 'accepted') AND state = 'pending' ORDER BY seq`,
		"open commands":    `SELECT 1 FROM commands WHERE execution_id = ? AND state IN ('pending', 'accepted')`,
		"an approval":      `SELECT 1 FROM approvals` + asked(engine.ApprovalFilter{ExecutionID: "x"}),
		"open approvals":   `SELECT ` + approvalColumns + ` FROM approvals` + asked(engine.ApprovalFilter{OpenOnly: true}) + ` ORDER BY seq`,
		"a rule":           `SELECT 1 FROM rules WHERE id = ? AND ` + inForce,
		"rules for":        `SELECT ` + ruleColumns + ` FROM rules` + ruled(engine.RuleFilter{Subjects: []string{"x"}, At: time.Now()}) + ` ORDER BY seq`,
		"old rules":        `SELECT 1 FROM rules WHERE expires_at IS NOT NULL AND expires_at < ?`,
		"rules of runs":    `SELECT 1 FROM rules WHERE scope = 'run' AND NOT EXISTS (SELECT 1 FROM executions WHERE id = rules.subject)`,
		"tasks":            `SELECT ` + taskColumns + ` FROM tasks WHERE status = ? ORDER BY created_at DESC, id DESC LIMIT ? OFFSET ?`,
		"audit of object":  `SELECT ` + auditColumns + ` FROM audit` + audited(engine.AuditFilter{Object: "x"}) + ` ORDER BY id DESC LIMIT ?`,
		"audit of actor":   `SELECT ` + auditColumns + ` FROM audit` + audited(engine.AuditFilter{Actor: "x"}) + ` ORDER BY id DESC LIMIT ?`,
		"spent by a user":  `SELECT sum(usd_nanos), sum(tokens) FROM spending WHERE day = ? AND who = ?`,
		"spent by agent":   `SELECT sum(usd_nanos), sum(tokens) FROM spending WHERE day = ? AND agent_id = ?`,
		"spent on a day":   `SELECT 1 FROM spending s LEFT JOIN executions e ON e.id = s.execution_id WHERE s.day = ?`,
		"extensions":       `SELECT sum(usd_nanos) FROM budget_extensions WHERE day = ? AND scope = 'user' AND subject = ?`,
		"old audit":        `SELECT id FROM audit WHERE at < ? LIMIT ?`,
	} {
		type step struct {
			id, parent, unused int
			detail             string
		}
		plan, err := list(t.Context(), db.reader, func(s *step) []any {
			return []any{&s.id, &s.parent, &s.unused, &s.detail}
		}, `EXPLAIN QUERY PLAN `+query, make([]any, strings.Count(query, "?"))...)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, s := range plan {
			if strings.HasPrefix(s.detail, "SCAN") && !strings.Contains(s.detail, "INDEX") && !strings.Contains(s.detail, "json_each") {
				t.Errorf("%s: %s", name, s.detail)
			}
		}
	}
}

// TestMigrations takes a database through steps of which the last one is broken: what
// came before stands, nothing of the broken one does, and the repaired one goes on.
func TestMigrations(t *testing.T) {
	t.Parallel()
	w, err := openWriter(t.Context(), filepath.Join(t.TempDir(), "test.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	steps := fstest.MapFS{
		"migrations/0001_init.sql": {Data: []byte("CREATE TABLE a (x); -- the end")},
		"migrations/0002_more.sql": {Data: []byte("CREATE TABLE b (x); CREATE TABLE a (x);")},
	}
	err = migrateFrom(t.Context(), w.tx, steps)
	if err == nil || !strings.Contains(err.Error(), "0002_more.sql") {
		t.Fatalf("a broken step: %v", err)
	}
	check := func(version int, tables string) {
		t.Helper()
		v, err := schemaVersion(t.Context(), w.tx)
		names, _, err2 := first(t.Context(), w.tx, itself[string], `SELECT group_concat(name) FROM (SELECT name FROM sqlite_schema ORDER BY name)`)
		if err := errors.Join(err, err2); err != nil || v != version || names != tables {
			t.Errorf("version %d with %q, want %d with %q: %v", v, names, version, tables, err)
		}
	}
	check(1, "a")
	steps["migrations/0002_more.sql"] = &fstest.MapFile{Data: []byte("CREATE TABLE c (x);")}
	for range 2 {
		if err := migrateFrom(t.Context(), w.tx, steps); err != nil {
			t.Fatal(err)
		}
		check(2, "a,c")
	}
}

// TestBatch puts good and failing jobs into one transaction.
func TestBatch(t *testing.T) {
	t.Parallel()
	db := openTest(t)
	note := func(object string, fail error) *job {
		return &job{ctx: t.Context(), done: make(chan error, 1), do: func(ctx context.Context, x *tx) error {
			if err := insertAudit(ctx, x, engine.Audit{At: time.Now(), Action: "batch", Object: object}); err != nil {
				return err
			}
			return fail
		}}
	}
	broken := errors.New("broken")
	batch := []*job{note("a", nil), note("b", broken), note("c", nil), note("d", broken)}
	w := &writer{tx: writerTx(t, db)}
	w.commit(t.Context(), batch)
	for i, want := range []error{nil, broken, nil, broken} {
		if err := <-batch[i].done; !errors.Is(err, want) {
			t.Errorf("job %d: %v, want %v", i, err, want)
		}
	}
	rows, err := db.AuditTrail(t.Context(), engine.AuditFilter{})
	if err != nil || len(rows) != 2 || rows[0].Object != "c" || rows[1].Object != "a" {
		t.Errorf("stored are %+v, %v", rows, err)
	}
}

// TestBrokenBatch loses the transaction in the middle: nobody may be told that his
// write was stored.
func TestBrokenBatch(t *testing.T) {
	t.Parallel()
	db := openTest(t)
	good := &job{ctx: t.Context(), done: make(chan error, 1), do: func(ctx context.Context, x *tx) error {
		return insertAudit(ctx, x, engine.Audit{At: time.Now(), Action: "lost"})
	}}
	bad := &job{ctx: t.Context(), done: make(chan error, 1), do: func(ctx context.Context, x *tx) error {
		_, err := x.exec(ctx, "ROLLBACK") // as SQLite does by itself when the disk is full
		return errors.Join(errors.New("disk full"), err)
	}}
	w := &writer{tx: writerTx(t, db)}
	w.commit(t.Context(), []*job{good, bad})
	if <-good.done == nil || <-bad.done == nil {
		t.Error("a lost write was called stored")
	}
	if err := db.AddAudit(t.Context(), engine.Audit{Action: "next"}); err != nil {
		t.Errorf("the next write: %v", err)
	}
	rows, err := db.AuditTrail(t.Context(), engine.AuditFilter{})
	if err != nil || len(rows) != 1 || rows[0].Action != "next" {
		t.Errorf("stored are %+v, %v", rows, err)
	}
}

// writerTx borrows the writer's connection while nobody else writes.
func writerTx(t *testing.T, db *DB) *tx {
	t.Helper()
	return db.writer.tx
}

func FuzzNumber(f *testing.F) {
	for _, s := range []string{"1", "#42", "", "#", "-1", "+1", "0x1", "01", "9223372036854775808", "é"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, ref string) {
		n, ok := parseNumber(ref)
		if ok && (n < 0 || strings.Trim(ref, "#0123456789") != "") {
			t.Errorf("%q is number %d", ref, n)
		}
	})
}

// FuzzObject holds that what is stored comes back as it was read the first time.
func FuzzObject(f *testing.F) {
	for _, s := range []string{`{"a":1}`, `{"a":12345678901234567}`, `{"a":[1.5,{"b":null}]}`, `{"a":1e400}`, `{"a":-0.0}`, `null`, `[]`, `{`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, stored string) {
		var m map[string]any
		if (object{&m}).Scan(stored) != nil {
			return
		}
		once, err := object{&m}.Value()
		if err != nil {
			t.Fatalf("store what was read from %q: %v", stored, err)
		}
		if err := (object{&m}).Scan(once); err != nil {
			t.Fatalf("read %q: %v", once, err)
		}
		twice, err := object{&m}.Value()
		if err != nil || twice != once {
			t.Errorf("%q became %q and then %q, %v", stored, once, twice, err)
		}
	})
}

// TestFullDisk: what does not fit is refused and undone, what is there can be read, and
// once there is room again work goes on.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	db := openTest(t)
	limit := func(pages int) {
		t.Helper()
		err := db.writer.write(t.Context(), func(ctx context.Context, x *tx) error {
			_, _, err := first(ctx, x, itself[int], "PRAGMA max_page_count = "+strconv.Itoa(pages))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	add := func() error {
		return db.AddAudit(t.Context(), engine.Audit{At: time.Now(), Action: "test", Object: strings.Repeat("x", 10_000)})
	}
	limit(1) // it cannot be less than there is
	stored, err := 0, error(nil)
	for ; err == nil && stored < 1000; stored++ {
		err = add()
	}
	if err == nil || !strings.Contains(err.Error(), "full") {
		t.Fatalf("after %d rows: %v", stored, err)
	}
	if err := add(); err == nil {
		t.Error("the next one fits")
	}
	count := func() int {
		t.Helper()
		rows, err := db.AuditTrail(t.Context(), engine.AuditFilter{PageSize: 500})
		if err != nil {
			t.Fatal(err)
		}
		return len(rows)
	}
	if n := count(); n != stored-1 {
		t.Errorf("%d rows are there, %d were stored", n, stored-1)
	}
	limit(1 << 20)
	if err := add(); err != nil || count() != stored {
		t.Errorf("with room again: %v, %d rows", err, count())
	}
}
