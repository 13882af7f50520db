package storetest

import (
	"slices"
	"testing"

	"github.com/threadmill/threadmill/engine"
)

func auditTests() map[string]func(*testing.T, engine.Store) {
	return map[string]func(*testing.T, engine.Store){
		"kept whole, newest first": keepsAudit,
		"filters":                  auditFilters,
		"bounded":                  auditBounded,
	}
}

func add(t *testing.T, s engine.Store, a engine.Audit) {
	t.Helper()
	if err := s.AddAudit(t.Context(), a); err != nil {
		t.Fatalf("add an audit row: %v", err)
	}
}

func keepsAudit(t *testing.T, s engine.Store) {
	want := []engine.Audit{
		{At: start(), Actor: "slack:U2", Action: "terminal.open", Object: "x", Detail: map[string]any{"why": "no permission", "n": int64(3)}},
		{At: start(), Actor: "web", Action: "execution.cancel", Allowed: true},
	}
	for _, a := range slices.Backward(want) {
		add(t, s, a)
	}
	got := trail(t, s, engine.AuditFilter{})
	if len(got) != 2 || got[0].ID <= got[1].ID {
		t.Fatalf("the trail is %+v", got)
	}
	want[0].ID, want[1].ID = got[0].ID, got[1].ID
	wantEqual(t, "trail", got, want)
}

func auditFilters(t *testing.T, s engine.Store) {
	for _, x := range [][2]string{{"a", "1"}, {"b", "1"}, {"a", "2"}} {
		add(t, s, engine.Audit{At: start(), Actor: x[0], Action: "act", Object: x[1]})
	}
	third := trail(t, s, engine.AuditFilter{})[0].ID
	for name, c := range map[string]struct {
		filter engine.AuditFilter
		want   int
	}{
		"object": {engine.AuditFilter{Object: "1"}, 2},
		"actor":  {engine.AuditFilter{Actor: "a"}, 2},
		"both":   {engine.AuditFilter{Actor: "a", Object: "1"}, 1},
		"before": {engine.AuditFilter{Before: third}, 2},
		"all":    {engine.AuditFilter{Actor: "a", Object: "2", Before: third}, 0},
		"size":   {engine.AuditFilter{PageSize: 1}, 1},
	} {
		wantEqual(t, name, len(trail(t, s, c.filter)), c.want)
	}
}

func auditBounded(t *testing.T, s engine.Store) {
	race(501, func(int) error {
		return s.AddAudit(t.Context(), engine.Audit{At: start(), Action: "act"})
	})
	wantEqual(t, "normally", len(trail(t, s, engine.AuditFilter{})), 100)
	wantEqual(t, "at most", len(trail(t, s, engine.AuditFilter{PageSize: 10000})), 500)
}
