package demo

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/threadmill/threadmill/engine/agent"
)

func TestParseEvent(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"", "{", "null", "[]", `{"type":"text","text":"no id"}`, `{"type":"no-such"}`,
		`{"type":"tool","id":"t"}`, `{"type":"tool","id":"t","tool":{"name":"x","action":"y","status":"running"}}`,
		`{"type":"ask","id":"a"}`, `{"type":"ask","id":"a","tool":{"name":"x"},"questions":[{"text":"q"}]}`,
		`{"type":"usage"}`, `{"type":"turn","state":"sideways"}`, `{"type":"error","text":"x"}`, `{"type":"hello"}`, `{"type":"reply"}`,
	} {
		if e, err := parseEvent([]byte(line)); err == nil {
			t.Errorf("parseEvent(%s) = %+v, want an error", line, e)
		}
	}
	want := event{Type: evText, ID: "a", Text: "b", More: true}
	got, err := parseEvent([]byte(`{"type":"text","id":"a","text":"b","more":true,"new":{"field":1}}`))
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("parseEvent = %v (-want +got):\n%s", err, diff)
	}
}

// FuzzParseEvent checks that whatever an agent prints, the entries can be written down
// and each kind has what belongs to it.
func FuzzParseEvent(f *testing.F) {
	for _, line := range []string{
		`{"type":"hello","session":"s"}`, `{"type":"turn","state":"started"}`, `{"type":"text","id":"a","text":"b","more":true}`,
		`{"type":"tool","id":"t","tool":{"name":"x","action":"tool","status":"running","input":{}}}`,
		`{"type":"ask","id":"a","questions":[{"text":"q"}]}`, `{"type":"ask","id":"a","tool":{"name":"x","input":[1]}}`,
		`{"type":"withdraw","id":"a"}`, `{"type":"usage","usage":{"costUsd":1}}`, `{"type":"error","reason":"r","text":"t"}`,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		e, err := parseEvent(line)
		if err != nil {
			return
		}
		tell := newTeller()
		tell.started(1, true)
		entries := append(tell.entries(e), tell.ended()...)
		for _, entry := range entries {
			checkEntry(t, entry)
		}
	})
}

func checkEntry(t *testing.T, e agent.Entry) {
	t.Helper()
	if _, err := json.Marshal(e); err != nil {
		t.Errorf("%+v cannot be written: %v", e, err)
	}
	switch {
	case e.Kind == agent.KindToolUse && (e.Tool == nil || e.ID == ""),
		e.Kind == agent.KindUsage && e.Usage == nil, e.Kind == agent.KindStatus && e.Status == nil,
		e.Kind == agent.KindApproval && (e.Ask == nil || e.Ask.Tool == "" || e.ID == ""),
		e.Kind == agent.KindQuestion && (e.Ask == nil || len(e.Ask.Questions) == 0 || e.ID == ""):
		t.Errorf("%+v is not complete", e)
	}
}

// FuzzParseRequest checks that a request which was read can be written again.
func FuzzParseRequest(f *testing.F) {
	f.Add([]byte(`{"req":1,"op":"message","id":"m","text":"hello","files":["a"]}`))
	f.Add([]byte(`{"req":1,"op":"decide","id":"a","allow":true,"input":{"command":"x"},"answers":{"q":"a"}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := parseRequest(line)
		if err != nil {
			return
		}
		again, err := parseRequest(encode(r))
		if err != nil || again.Op != r.Op || again.Text != r.Text || again.ID != r.ID || again.Req != r.Req {
			t.Errorf("%+v became %+v (%v)", r, again, err)
		}
	})
}
