package web

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"runtime/debug"
	"strings"

	"github.com/threadmill/threadmill/engine"
)

// hosts are the names under which the server may be addressed. A page that rebinds
// its own name to this machine still sends that name, so it is refused.
type hosts struct {
	names  map[string]bool // lower case, without port
	anyIP  bool            // listening everywhere: every address of the machine is right
	origin string          // of the public URL
}

func newHosts(listen []string, public *url.URL) hosts {
	h := hosts{names: map[string]bool{"localhost": true, "127.0.0.1": true, "::1": true}}
	for _, addr := range listen {
		host := hostname(addr)
		ip, err := netip.ParseAddr(host)
		if host == "" || err == nil && ip.IsUnspecified() {
			h.anyIP = true
			continue
		}
		h.names[host] = true
	}
	if public != nil {
		h.names[strings.ToLower(public.Hostname())] = true
		h.origin = strings.ToLower(public.Scheme + "://" + public.Host)
	}
	return h
}

// hostname is a host:port without the port, in lower case.
func hostname(hostport string) string {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(hostport, "["), "]")
	}
	return strings.ToLower(host)
}

// knows reports whether a Host header names this server.
func (h hosts) knows(hostport string) bool {
	host := hostname(hostport)
	if h.names[host] {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && (h.anyIP || ip.IsLoopback())
}

// trusts reports whether an Origin header is that of our own pages.
func (h hosts) trusts(origin, host string) bool {
	origin, host = strings.ToLower(origin), strings.ToLower(host)
	return origin != "" && (origin == h.origin || origin == "http://"+host || origin == "https://"+host)
}

// guard is what every request passes before it reaches its route.
func (s *Server) guard(next http.Handler) http.Handler {
	refuse := s.metered("refused", func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, r, s.checkSource(r))
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secureHeaders(w.Header())
		if s.checkSource(r) != nil {
			refuse.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// checkSource refuses requests that a foreign page made a browser send.
func (s *Server) checkSource(r *http.Request) error {
	if !s.hosts.knows(r.Host) {
		return statusErrorf(http.StatusMisdirectedRequest, engine.CodeForbidden,
			"this service is not reached as %q: use the address it listens on, or set public_url in its configuration", r.Host)
	}
	for _, origin := range r.Header.Values("Origin") {
		if !s.hosts.trusts(origin, r.Host) {
			return engine.Errorf(engine.CodeForbidden, "pages of %q may not use this service", origin)
		}
	}
	return nil
}

func secureHeaders(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// recoverPanic turns a panic into an answer. Where the answer has begun already the
// connection is cut, so that the client sees that it is not whole.
func (s *Server) recoverPanic(w *recorder, r *http.Request) {
	v := recover()
	if v == nil {
		return
	}
	if v != http.ErrAbortHandler { //nolint:errorlint // net/http compares the panic value itself
		ref := s.reference(r, "panic", v, "stack", string(debug.Stack()))
		if w.status == 0 {
			s.failWith(w, r, ref)
			return
		}
	}
	panic(http.ErrAbortHandler)
}

// authenticate lets requests with the token pass, and those of a browser that is
// signed in. A token that is wrong is not made right by a cookie.
func (s *Server) authenticate(w http.ResponseWriter, r *http.Request) error {
	switch given := givenToken(r); {
	case given != "" && sameToken(given, s.token):
		return nil
	case bearing(r):
		return errUnauthorized()
	}
	return s.bySession(w, r)
}

// bearing reports whether a request tries to prove itself by a token.
func bearing(r *http.Request) bool {
	return r.Header.Get("Authorization") != "" || socketToken(r) != ""
}

// givenToken is the token that a request carries.
func givenToken(r *http.Request) string {
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if strings.EqualFold(scheme, "bearer") {
		return strings.TrimSpace(given)
	}
	return socketToken(r)
}

// sameToken compares hashes, so that the time it takes tells nothing of the token,
// its length included.
func sameToken(given, want string) bool {
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(want))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

func errUnauthorized() error {
	return engine.Errorf(engine.CodeUnauthorized, "this needs the API token: send it as `Authorization: Bearer TOKEN`; it is in the file %s of the data directory", TokenFile)
}

// recorder notes the status of an answer.
type recorder struct {
	http.ResponseWriter
	status int
}

// WriteHeader notes the status and sends it.
func (w *recorder) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK || status == http.StatusSwitchingProtocols {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write sends b, after a 200 where nothing was said yet.
func (w *recorder) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap gives http.ResponseController what it looks for.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }
