package web_test

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/threadmill/threadmill/bot/web"
	"github.com/threadmill/threadmill/bot/web/api"
	"github.com/threadmill/threadmill/engine"
)

// link makes a link and returns its token.
func (r *rig) link(t *testing.T) string {
	t.Helper()
	l, err := r.client.Link(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	address, token, _ := strings.Cut(l.URL, "/#token=")
	if address != "https://mill.example:8443" || time.Until(l.ExpiresAt) > 15*time.Minute {
		t.Errorf("the link is %+v", l)
	}
	return token
}

// trade sends a link's token from a page and returns the answer.
func (r *rig) trade(t *testing.T, token, origin string) reply {
	t.Helper()
	q := request{method: "POST", path: "/api/session", body: `{"token":"` + token + `"}`, anonymous: true}
	if origin != "" {
		q.header = http.Header{"Origin": {origin}}
		_, q.host, _ = strings.Cut(origin, "://")
	}
	return r.do(t, q)
}

// signIn returns a browser's cookie.
func (r *rig) signIn(t *testing.T) string {
	t.Helper()
	a := r.trade(t, r.link(t), "")
	if a.status != http.StatusOK {
		t.Fatalf("%d: %s", a.status, a.body)
	}
	return strings.Split(a.header.Get("Set-Cookie"), ";")[0]
}

// browser is a request as our own page sends it.
func browser(method, path, cookie string) request {
	return request{method: method, path: path, anonymous: true, header: http.Header{"Cookie": {cookie}, "Sec-Fetch-Site": {"same-origin"}}}
}

func TestALinkSignsInOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	token := r.link(t)
	for _, method := range []string{"GET", "HEAD"} { // what looks at links spends nothing
		if a := r.do(t, request{method: method, path: "/", anonymous: true}); a.status != http.StatusOK || a.header.Get("Set-Cookie") != "" {
			t.Errorf("%s: %d %v", method, a.status, a.header)
		}
	}
	a := r.trade(t, token, "https://mill.example:8443")
	cookie := a.header.Get("Set-Cookie")
	for _, attribute := range []string{"HttpOnly", "SameSite=Strict", "Secure", "Path=/", "Max-Age=2592000"} {
		if a.status != http.StatusOK || !strings.Contains(cookie, attribute) {
			t.Errorf("%d, cookie %q: no %s", a.status, cookie, attribute)
		}
	}
	if strings.Contains(cookie, token) || strings.Contains(r.log.String(), token) {
		t.Error("the link's token went elsewhere")
	}
	r.trade(t, token, "").wantFailure(t, 401, engine.CodeUnauthorized, "threadmill link")
	r.trade(t, "nonsense", "").wantFailure(t, 401, engine.CodeUnauthorized, "threadmill link")
	if cookie := r.trade(t, r.link(t), "http://127.0.0.1:4100").header.Get("Set-Cookie"); strings.Contains(cookie, "Secure") {
		t.Errorf("without https the cookie is %q, which the browser would not send", cookie)
	}
}

func TestALinkLeadsToAnAddressThatBrowsersKnow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ public, listen, want string }{
		{"https://mill.example/sub/", "127.0.0.1:4100", "https://mill.example/sub"},
		{"http://0.0.0.0:4100", "0.0.0.0:4100", "http://localhost:4100"},
		{"http://:4100", ":4100", "http://localhost:4100"},
		{"http://[::]:4100", "[::]:4100", "http://localhost:4100"},
		{"http://0.0.0.0", "0.0.0.0:80", "http://localhost"},
		{"", "192.0.2.1:4100", "http://192.0.2.1:4100"},
	} {
		r := newRig(t, func(o *web.Options) { o.PublicURL, o.Listen = c.public, []string{c.listen} })
		l, err := r.server.NewLink(t.Context())
		if address, _, found := strings.Cut(l.URL, "/#token="); err != nil || !found || address != c.want {
			t.Errorf("%q, listening on %s: %s %v", c.public, c.listen, l.URL, err)
		}
	}
}

func TestACookieIsForOurOwnPage(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	cookie := r.signIn(t)
	for _, c := range []struct {
		name, method, path string
		header             http.Header
		want               int
	}{
		{"ours reads", "GET", "/api/agents", http.Header{"Sec-Fetch-Site": {"same-origin"}}, 200},
		{"the address bar reads", "GET", "/api/agents", http.Header{"Sec-Fetch-Site": {"none"}}, 200},
		{"an old browser reads", "GET", "/api/agents", nil, 200},
		{"a sibling reads", "GET", "/api/agents", http.Header{"Sec-Fetch-Site": {"same-site"}}, 403},
		{"a stranger reads", "GET", "/api/agents", http.Header{"Sec-Fetch-Site": {"cross-site"}}, 403},
		{"a stranger's socket", "GET", "/api/executions/1/logs/ws", http.Header{"Origin": {"https://evil.example"}, "Upgrade": {"websocket"}}, 403},
		{"ours writes", "POST", "/api/session/links", http.Header{"Sec-Fetch-Site": {"same-origin"}}, 201},
		{"ours writes from an old browser", "POST", "/api/session/links", http.Header{"Origin": {"http://127.0.0.1:4100"}}, 201},
		{"nobody writes", "POST", "/api/session/links", nil, 403},
		{"the address bar writes", "POST", "/api/session/links", http.Header{"Sec-Fetch-Site": {"none"}}, 403},
		{"a sibling writes", "POST", "/api/session/links", http.Header{"Sec-Fetch-Site": {"same-site"}}, 403},
		{"a stranger writes", "POST", "/api/session/links", http.Header{"Sec-Fetch-Site": {"cross-site"}, "Origin": {"https://evil.example"}}, 403},
		{"a stranger signs out", "DELETE", "/api/session", http.Header{"Sec-Fetch-Site": {"cross-site"}}, 403},
		{"a wrong token beside it", "GET", "/api/agents", http.Header{"Authorization": {"Bearer nonsense"}}, 401},
	} {
		h := c.header.Clone()
		if h == nil {
			h = http.Header{}
		}
		h.Set("Cookie", cookie)
		a := r.do(t, request{method: c.method, path: c.path, anonymous: true, host: "127.0.0.1:4100", header: h})
		if a.status != c.want {
			t.Errorf("%s: %d, want %d: %s", c.name, a.status, c.want, a.body)
		}
	}
}

func TestASessionEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	cookie := r.signIn(t)
	s := decode[struct{ Data api.Session }](t, r.do(t, browser("GET", "/api/session", cookie)).body).Data
	if s.User != "web" || s.ExpiresAt == nil || time.Until(*s.ExpiresAt) < 29*24*time.Hour {
		t.Errorf("the session is %+v", s)
	}
	a := r.do(t, browser("DELETE", "/api/session", cookie))
	if a.status != http.StatusNoContent || !strings.Contains(a.header.Get("Set-Cookie"), "threadmill_session=; Path=/; Max-Age=0") {
		t.Errorf("%d %v", a.status, a.header)
	}
	r.do(t, browser("GET", "/api/session", cookie)).wantFailure(t, 401, engine.CodeUnauthorized, "threadmill link")
	r.do(t, browser("GET", "/api/agents", "threadmill_session=")).wantFailure(t, 401, engine.CodeUnauthorized, "threadmill link")
}

// aging is a store whose sessions were not used for a day.
type aging struct {
	web.Sessions
	extended chan time.Time
}

func (a *aging) Session(ctx context.Context, hash []byte) (time.Time, error) {
	expires, err := a.Sessions.Session(ctx, hash)
	return expires.Add(-24 * time.Hour), err
}

func (a *aging) ExtendSession(_ context.Context, _ []byte, expires time.Time) error {
	a.extended <- expires
	return nil
}

func TestASessionThatIsUsedLasts(t *testing.T) {
	t.Parallel()
	store := &aging{extended: make(chan time.Time, 1)}
	r := newRig(t, func(o *web.Options) {
		store.Sessions = o.Sessions
		o.Sessions = store
	})
	cookie := r.signIn(t)
	a := r.do(t, browser("GET", "/api/agents", cookie))
	if !strings.HasPrefix(a.header.Get("Set-Cookie"), cookie+"; Path=/; Max-Age=2592000") {
		t.Errorf("%d %v", a.status, a.header)
	}
	if left := time.Until(<-store.extended); left < 29*24*time.Hour {
		t.Errorf("it lasts for %v", left)
	}
}

func TestAChangeIsTold(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	req := browser("GET", "/api/changes", r.signIn(t)).build(t, r.http.URL)
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	next := func() {
		t.Helper()
		for lines.Scan() {
			if lines.Text() == "event: change" {
				return
			}
		}
		t.Fatalf("the stream ended: %v", lines.Err())
	}
	next()
	x, run := r.start(t, "chat", "hello")
	next()
	run.end(t, 0)
	r.await(t, x.ID, engine.Status.Ended)
	next()
	if _, err := r.client.CreateTask(t.Context(), api.TaskRequest{Title: "later"}); err != nil {
		t.Fatal(err)
	}
	next()
}
