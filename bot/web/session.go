package web

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/threadmill/threadmill/bot/web/api"
	"github.com/threadmill/threadmill/engine"
)

// Sessions keeps who is signed in. It sees hashes of links and sessions only. What is
// unknown, used or expired is an error with CodeUnauthorized.
type Sessions interface {
	AddLink(ctx context.Context, hash []byte, expires time.Time) error
	SpendLink(ctx context.Context, link, session []byte, expires time.Time, by engine.Audit) error
	Session(ctx context.Context, hash []byte) (expires time.Time, err error)
	ExtendSession(ctx context.Context, hash []byte, expires time.Time) error
	EndSession(ctx context.Context, hash []byte, by engine.Audit) error
}

const (
	// linkTTL is how long a link signs in: long enough to walk over to a phone.
	linkTTL = 15 * time.Minute
	// sessionTTL is how long an unused session lasts.
	sessionTTL = 30 * 24 * time.Hour
	// extendAfter spares a session that is in use a write for each request.
	extendAfter = time.Hour

	sessionCookie = "threadmill_session"
)

// newSecret returns a secret for somebody else and the hash of it, to keep.
func newSecret() (secret string, hash []byte) {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails: it ends the program instead
	secret = base64.RawURLEncoding.EncodeToString(b)
	return secret, hashOf(secret)
}

func hashOf(secret string) []byte {
	h := sha256.Sum256([]byte(secret))
	return h[:]
}

// NewLink makes a link that signs one browser in. The token is in the fragment, which
// browsers send to nobody, and the page trades it by a POST: a program that looks at
// links, as chats do, spends nothing.
func (s *Server) NewLink(ctx context.Context) (api.Link, error) {
	token, hash := newSecret()
	l := api.Link{URL: s.home + "/#token=" + token, ExpiresAt: time.Now().Add(linkTTL).UTC()}
	return l, s.sessions.AddLink(ctx, hash, l.ExpiresAt)
}

// homeOf is the page's address for people. An address to listen on need not be one.
func homeOf(public *url.URL, listen []string) string {
	home := url.URL{Scheme: "http", Host: "localhost"}
	switch {
	case public != nil:
		home = url.URL{Scheme: public.Scheme, Host: public.Host, Path: strings.TrimRight(public.Path, "/")}
	case len(listen) > 0:
		home.Host = listen[0]
	}
	ip, err := netip.ParseAddr(home.Hostname())
	if home.Hostname() == "" || err == nil && ip.IsUnspecified() {
		home.Host = strings.TrimSuffix("localhost:"+home.Port(), ":")
	}
	return home.String()
}

func (s *Server) createLink(r *http.Request) (answer, error) {
	if err := readBody(r, &struct{}{}, true); err != nil {
		return answer{}, err
	}
	l, err := s.NewLink(r.Context())
	return answer{status: http.StatusCreated, data: l}, err
}

// createSession trades a link's token for a cookie.
func (s *Server) createSession(w http.ResponseWriter, r *http.Request) {
	s.json(func(r *http.Request) (answer, error) {
		var b api.SessionRequest
		if err := readBody(r, &b, false); err != nil {
			return answer{}, err
		}
		if b.Token == "" {
			return answer{}, engine.Errorf(engine.CodeInvalid, "field \"token\": it is what stands behind #token= in the link")
		}
		secret, hash := newSecret()
		now := time.Now().UTC()
		expires := now.Add(sessionTTL)
		by := engine.Audit{At: now, Actor: actor(r), Action: "session.create", Allowed: true}
		if err := s.sessions.SpendLink(r.Context(), hashOf(b.Token), hash, expires, by); err != nil {
			return answer{}, err
		}
		http.SetCookie(w, s.cookie(r, secret, sessionTTL))
		return ok(api.Session{User: actor(r), ExpiresAt: &expires})
	})(w, r)
}

// showSession tells who asks, so that the page knows whether it is signed in.
func (s *Server) showSession(r *http.Request) (answer, error) {
	a := api.Session{User: actor(r)}
	if c, err := r.Cookie(sessionCookie); err == nil && !bearing(r) {
		expires, err := s.sessions.Session(r.Context(), hashOf(c.Value))
		if err != nil {
			return answer{}, err
		}
		a.ExpiresAt = &expires
	}
	return ok(a)
}

// endSession signs the browser out. It needs no session: one that has expired is to
// lose its cookie as well.
func (s *Server) endSession(w http.ResponseWriter, r *http.Request) {
	if c, err := r.Cookie(sessionCookie); err == nil {
		if err := ownPage(r); err != nil {
			s.fail(w, r, err)
			return
		}
		by := engine.Audit{At: time.Now().UTC(), Actor: actor(r), Action: "session.end", Allowed: true}
		if err := s.sessions.EndSession(r.Context(), hashOf(c.Value), by); err != nil {
			s.fail(w, r, err)
			return
		}
	}
	http.SetCookie(w, s.cookie(r, "", -time.Second))
	w.WriteHeader(http.StatusNoContent)
}

// cookie holds a session. It is Secure where the browser came by https, which the
// origin tells also behind a proxy.
func (s *Server) cookie(r *http.Request, value string, lasts time.Duration) *http.Cookie {
	secure := r.TLS != nil || strings.HasPrefix(r.Header.Get("Origin"), "https://") ||
		strings.HasPrefix(s.hosts.origin, "https://") && strings.EqualFold("https://"+r.Host, s.hosts.origin)
	return &http.Cookie{ //nolint:gosec // Secure where it can be: without https the browser would not send it
		Name: sessionCookie, Value: value, Path: "/", MaxAge: int(lasts / time.Second),
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: secure,
	}
}

// bySession lets a request pass whose cookie names a session, and makes a session that
// is in use last.
func (s *Server) bySession(w http.ResponseWriter, r *http.Request) error {
	c, err := r.Cookie(sessionCookie)
	if err != nil {
		return errUnauthorized()
	}
	if err := ownPage(r); err != nil {
		return err
	}
	hash := hashOf(c.Value)
	expires, err := s.sessions.Session(r.Context(), hash)
	if err != nil {
		return err
	}
	now := time.Now()
	if expires.Sub(now) > sessionTTL-extendAfter {
		return nil
	}
	http.SetCookie(w, s.cookie(r, c.Value, sessionTTL))
	return s.sessions.ExtendSession(r.Context(), hash, now.Add(sessionTTL))
}

// ownPage refuses a request with a cookie that does not come from our own page. The
// cookie is SameSite=Strict, but a page on another port of this host is the same site.
// The guard has looked at the Origin, where there is one.
func ownPage(r *http.Request) error {
	safe := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch site := r.Header.Get("Sec-Fetch-Site"); {
	case site == "same-origin", site == "none" && safe: // none: typed into the address bar
		return nil
	case site == "" && (safe || r.Header.Get("Origin") != ""):
		return nil
	}
	return engine.Errorf(engine.CodeForbidden, "only the service's own page may use its cookie: programs send the API token")
}
