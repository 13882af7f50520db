package main

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/threadmill/threadmill/bot/web/api"
	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/agent"
)

func asked(texts ...string) engine.Approval {
	p := engine.Approval{ID: "q", ExecutionID: "x", Kind: agent.KindQuestion}
	for _, text := range texts {
		p.Ask.Questions = append(p.Ask.Questions, agent.Question{Text: text, Choices: []agent.Choice{{Label: "A"}, {Label: "B"}}})
	}
	return p
}

func TestAllow(t *testing.T) {
	t.Parallel()
	permission := engine.Approval{Kind: agent.KindApproval}
	for _, c := range []struct {
		name    string
		p       engine.Approval
		answers []string
		input   string
		want    api.DecisionRequest
	}{
		{"a permission", permission, nil, "", api.DecisionRequest{Decision: api.Allow}},
		{"with other arguments", permission, nil, `{"a":1}`, api.DecisionRequest{Decision: api.Allow, ModifiedInput: json.RawMessage(`{"a":1}`)}},
		{
			"answers in order", asked("One?", "Two?"),
			[]string{"A", "free text"},
			"",
			api.DecisionRequest{Decision: api.Allow, Answers: map[string]string{"One?": "A", "Two?": "free text"}},
		},
	} {
		got, err := allow(c.p, c.answers, c.input)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestAllowRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		p       engine.Approval
		answers []string
		input   string
	}{
		"no answer":              {p: asked("One?")},
		"too many answers":       {p: asked("One?"), answers: []string{"a", "b"}},
		"answer to a permission": {p: engine.Approval{Kind: agent.KindApproval}, answers: []string{"a"}},
		"broken JSON":            {p: engine.Approval{Kind: agent.KindApproval}, input: "{"},
	} {
		_, err := allow(c.p, c.answers, c.input)
		if _, ok := errors.AsType[usageError](err); !ok {
			t.Errorf("%s: error %v, want a usage error", name, err)
		}
	}
}

// A number stands for what its execution waits for only while that is one thing, so
// nobody allows something that he did not see.
func TestOnly(t *testing.T) {
	t.Parallel()
	list := []engine.Approval{{ID: "1", ExecutionID: "a"}, {ID: "2", ExecutionID: "b"}, {ID: "3", ExecutionID: "b"}}
	if p, err := only(list, engine.Execution{ID: "a"}); err != nil || p.ID != "1" {
		t.Errorf("got %q (%v), want 1", p.ID, err)
	}
	for id, says := range map[string]string{"b": "waits for 2 things", "c": "waits for nothing"} {
		if _, err := only(list, engine.Execution{ID: id}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: error %v, want one that says %q", id, err, says)
		}
	}
}

func TestAskState(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]engine.Approval{
		"open":                {State: agent.AskOpen},
		"open, asked 3 times": {State: agent.AskOpen, Ask: agent.Ask{Reminders: 2}},
		"timed_out":           {State: agent.AskTimedOut, Ask: agent.Ask{Reminders: 2}},
	} {
		if got := askState(p); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestQuestions(t *testing.T) {
	t.Parallel()
	if got, want := questions(asked("One?", "Two?").Ask), "One? A | B; Two? A | B"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
