package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/threadmill/threadmill/engine"
)

// SessionStore is what the web page needs of a store.
type SessionStore interface {
	AddLink(ctx context.Context, hash []byte, expires time.Time) error
	SpendLink(ctx context.Context, link, session []byte, expires time.Time, by engine.Audit) error
	Session(ctx context.Context, hash []byte) (expires time.Time, err error)
	ExtendSession(ctx context.Context, hash []byte, expires time.Time) error
	EndSession(ctx context.Context, hash []byte, by engine.Audit) error
	AuditTrail(ctx context.Context, f engine.AuditFilter) ([]engine.Audit, error)
}

// RunSessions holds a store against what the web page expects. Each call of open
// returns a new, empty one that takes the time from now.
func RunSessions(t *testing.T, open func(t *testing.T, now func() time.Time) SessionStore) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, SessionStore, *time.Time){
		"a link makes one session":      linkMakesOneSession,
		"an expired link makes none":    expiredLink,
		"one of many wins a link":       linkIsRaced,
		"a session ends":                sessionEnds,
		"a session expires":             sessionExpires,
		"a session is only made longer": sessionIsExtended,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := start()
			test(t, open(t, func() time.Time { return now }), &now)
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func signIn(at time.Time) engine.Audit {
	return engine.Audit{At: at, Actor: "web", Action: "session.create", Allowed: true}
}

func wantSession(t *testing.T, s SessionStore, hash string, expires time.Time) {
	t.Helper()
	got, err := s.Session(t.Context(), []byte(hash))
	must(t, err)
	wantEqual(t, "expires", got, expires)
}

func wantNoSession(t *testing.T, s SessionStore, hash string) {
	t.Helper()
	_, err := s.Session(t.Context(), []byte(hash))
	wantCode(t, err, engine.CodeUnauthorized)
}

// signedIn has a session named "s" that expires after an hour.
func signedIn(t *testing.T, s SessionStore) {
	t.Helper()
	must(t, s.AddLink(t.Context(), []byte("l"), after(time.Minute)))
	must(t, s.SpendLink(t.Context(), []byte("l"), []byte("s"), after(time.Hour), signIn(start())))
}

func linkMakesOneSession(t *testing.T, s SessionStore, _ *time.Time) {
	wantNoSession(t, s, "s")
	signedIn(t, s)
	wantSession(t, s, "s", after(time.Hour))
	wantCode(t, s.SpendLink(t.Context(), []byte("l"), []byte("other"), after(time.Hour), signIn(start())), engine.CodeUnauthorized)
	wantNoSession(t, s, "other")
	wantNoSession(t, s, "l")
	rows, err := s.AuditTrail(t.Context(), engine.AuditFilter{})
	must(t, err)
	wantEqual(t, "audit rows", len(rows), 1)
}

func expiredLink(t *testing.T, s SessionStore, now *time.Time) {
	must(t, s.AddLink(t.Context(), []byte("l"), after(time.Minute)))
	*now = after(time.Minute)
	wantCode(t, s.SpendLink(t.Context(), []byte("l"), []byte("s"), after(time.Hour), signIn(*now)), engine.CodeUnauthorized)
	wantNoSession(t, s, "s")
}

func linkIsRaced(t *testing.T, s SessionStore, _ *time.Time) {
	must(t, s.AddLink(t.Context(), []byte("l"), after(time.Minute)))
	won := 0
	for _, err := range race(8, func(i int) error {
		return s.SpendLink(t.Context(), []byte("l"), []byte(numbered("s", i)), after(time.Hour), signIn(start()))
	}) {
		if err == nil {
			won++
			continue
		}
		wantCode(t, err, engine.CodeUnauthorized)
	}
	wantEqual(t, "winners", won, 1)
}

func sessionEnds(t *testing.T, s SessionStore, _ *time.Time) {
	signedIn(t, s)
	end := engine.Audit{At: start(), Actor: "web", Action: "session.end", Allowed: true}
	must(t, s.EndSession(t.Context(), []byte("s"), end))
	wantNoSession(t, s, "s")
	must(t, s.EndSession(t.Context(), []byte("s"), end)) // again: nothing happens
	must(t, s.ExtendSession(t.Context(), []byte("s"), after(2*time.Hour)))
	wantNoSession(t, s, "s")
	rows, err := s.AuditTrail(t.Context(), engine.AuditFilter{})
	must(t, err)
	wantEqual(t, "audit rows", len(rows), 2)
}

func sessionExpires(t *testing.T, s SessionStore, now *time.Time) {
	signedIn(t, s)
	*now = after(time.Hour - time.Nanosecond)
	wantSession(t, s, "s", after(time.Hour))
	*now = after(time.Hour)
	wantNoSession(t, s, "s")
}

func sessionIsExtended(t *testing.T, s SessionStore, now *time.Time) {
	signedIn(t, s)
	must(t, s.ExtendSession(t.Context(), []byte("s"), after(3*time.Hour)))
	must(t, s.ExtendSession(t.Context(), []byte("s"), after(2*time.Hour)))
	*now = after(2 * time.Hour)
	wantSession(t, s, "s", after(3*time.Hour))
}
