package fakeapi_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/threadmill/threadmill/adapters/claude/fakeapi"
)

func post(t *testing.T, api http.Handler, body string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	api.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/messages", strings.NewReader(body)))
	return w
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	user := func(content string) string { return `{"role":"user","content":` + content + `}` }
	said := user(`"[do say heron]"`) + `,{"role":"assistant","content":"heron"},`
	result := user(`[{"type":"tool_result","content":[{"type":"text","text":"done"}]}]`)
	for _, c := range []struct{ messages, want string }{
		{user(`"hi"`), `"text":"Hello."`},
		{said + user(`[{"type":"text","text":"please [do recall]"}]`), `"text":"You said: heron"`},
		{user(`"[do bash ls -l]"`), `"input":{"command":"ls -l","description":"As the message said"},"name":"Bash","type":"tool_use"`},
		{user(`"[do background ls]"`), `"run_in_background":true`},
		{user(`"[do write f some text]"`), `"input":{"content":"some text\n","file_path":"f"}`},
		{user(`"[do ask Q?|A|B]"`), `"name":"AskUserQuestion"`},
		{user(`"[do think hard]"`), `"text":"I thought."`},
		{user(`"[do bash ls]"`) + `,{"role":"assistant","content":[]},` + result, `"text":"Result: done"`},
		{user(`"[do steps 2]"`) + `,{"role":"assistant","content":[]},` + result, `"command":"sleep 0.3"`},
		{user(`"[do steps 1]"`) + `,{"role":"assistant","content":[]},` + result, `"text":"Result: done"`},
	} {
		w := post(t, &fakeapi.Server{}, `{"model":"m","messages":[`+c.messages+`]}`)
		if got := w.Body.String(); w.Code != http.StatusOK || !strings.Contains(got, c.want) {
			t.Errorf("%s is answered %d %s, want %s", c.messages, w.Code, got, c.want)
		}
	}
}

func TestStream(t *testing.T) {
	t.Parallel()
	api := &fakeapi.Server{}
	got := post(t, api, `{"model":"m","stream":true,"messages":[{"role":"user","content":"[do trickle 3 1]"}]}`).Body.String()
	for _, want := range []string{"event: message_start\n", `"text":"word1 "`, `"text":"word3 "`, `"stop_reason":"end_turn"`, "event: message_stop\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("the stream lacks %s:\n%s", want, got)
		}
	}
	if seen := api.Seen(); !slices.Equal(seen, []string{"trickle 3 1"}) {
		t.Errorf("it has seen %q", seen)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for order, want := range map[string]struct {
		status int
		kind   string
	}{
		"error 401":  {401, "authentication_error"},
		"error 403":  {403, "permission_error"},
		"error 404":  {404, "not_found_error"},
		"error 400":  {400, "invalid_request_error"},
		"error 500":  {500, "api_error"},
		"error 529":  {529, "overloaded_error"},
		"limit 3600": {429, "rate_limit_error"},
	} {
		w := post(t, &fakeapi.Server{}, `{"messages":[{"role":"user","content":"[do `+order+`]"}]}`)
		if w.Code != want.status || !strings.Contains(w.Body.String(), want.kind) {
			t.Errorf("%s is answered %d %s", order, w.Code, w.Body)
		}
		if limited := w.Header().Get("anthropic-ratelimit-unified-reset") != ""; limited != (order == "limit 3600") {
			t.Errorf("%s tells a limit: %t", order, limited)
		}
	}
	if w := post(t, &fakeapi.Server{}, "{"); w.Code != http.StatusBadRequest {
		t.Errorf("a broken request is answered %d", w.Code)
	}
	w := httptest.NewRecorder()
	(&fakeapi.Server{}).ServeHTTP(w, httptest.NewRequest(http.MethodHead, "/", nil))
	if w.Code != http.StatusNotFound {
		t.Errorf("another path is answered %d", w.Code)
	}
}
