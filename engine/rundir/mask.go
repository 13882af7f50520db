package rundir

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/redact"
)

// maskEntry returns a copy of e with the secrets in its texts masked. Numbers, times and
// the words that only this project uses (kinds, states) stay as they are.
func maskEntry(e agent.Entry, m *redact.Masker) (agent.Entry, error) {
	e.ID, e.Content = m.Text(e.ID), m.Text(e.Content)
	var err error
	if e.Tool, err = maskTool(e.Tool, m); err != nil {
		return e, err
	}
	if e.Ask, err = maskAsk(e.Ask, m); err != nil {
		return e, err
	}
	if e.Status != nil {
		status := *e.Status
		status.SessionRef = m.Text(status.SessionRef)
		e.Status = &status
	}
	if e.Meta != nil {
		e.Meta, err = maskMeta(e.Meta, m)
	}
	return e, err
}

func maskTool(t *agent.Tool, m *redact.Masker) (*agent.Tool, error) {
	if t == nil {
		return nil, nil
	}
	masked := *t
	for _, s := range []*string{&masked.Name, &masked.Path, &masked.Diff, &masked.Command, &masked.Result} {
		*s = m.Text(*s)
	}
	var err error
	masked.Input, err = maskJSON(t.Input, m)
	return &masked, err
}

func maskAsk(a *agent.Ask, m *redact.Masker) (*agent.Ask, error) {
	if a == nil {
		return nil, nil
	}
	masked := *a
	masked.Tool = m.Text(a.Tool)
	masked.Questions = nil
	for _, q := range a.Questions {
		masked.Questions = append(masked.Questions, maskQuestion(q, m))
	}
	var err error
	if masked.Input, err = maskJSON(a.Input, m); err == nil && a.Decision != nil {
		masked.Decision, err = maskDecision(*a.Decision, m)
	}
	return &masked, err
}

func maskQuestion(q agent.Question, m *redact.Masker) agent.Question {
	q.Text, q.Header = m.Text(q.Text), m.Text(q.Header)
	choices := q.Choices
	q.Choices = nil
	for _, c := range choices {
		q.Choices = append(q.Choices, agent.Choice{Label: m.Text(c.Label), Description: m.Text(c.Description)})
	}
	return q
}

func maskDecision(d agent.Decision, m *redact.Masker) (*agent.Decision, error) {
	d.AskID, d.Message, d.By = m.Text(d.AskID), m.Text(d.Message), m.Text(d.By)
	answers := d.Answers
	d.Answers = nil
	for question, answer := range answers {
		if d.Answers == nil {
			d.Answers = make(map[string]string, len(answers))
		}
		d.Answers[m.Text(question)] = m.Text(answer)
	}
	var err error
	d.ModifiedInput, err = maskJSON(d.ModifiedInput, m)
	return &d, err
}

// maskMeta masks what an agent added, whatever types the adapter used for it.
func maskMeta(meta map[string]any, m *redact.Masker) (map[string]any, error) {
	raw, err := json.Marshal(meta)
	if err != nil {
		return nil, fmt.Errorf("mask the meta data: %w", err)
	}
	if raw, err = maskJSON(raw, m); err != nil {
		return nil, err
	}
	var masked map[string]any
	if err := json.Unmarshal(raw, &masked); err != nil {
		return nil, fmt.Errorf("mask the meta data: %w", err)
	}
	return masked, nil
}

// maskJSON masks the strings and names in a JSON document, and numbers that are secrets.
func maskJSON(raw json.RawMessage, m *redact.Masker) (json.RawMessage, error) {
	if len(raw) == 0 {
		return raw, nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber() // so that long numbers stay exact
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, fmt.Errorf("mask JSON: %w", err)
	}
	masked, err := json.Marshal(maskValue(v, m))
	if err != nil {
		return nil, fmt.Errorf("mask JSON: %w", err)
	}
	return masked, nil
}

func maskValue(v any, m *redact.Masker) any {
	switch v := v.(type) {
	case string:
		return m.Text(v)
	case json.Number:
		if masked := m.Text(v.String()); masked != v.String() {
			return masked
		}
	case []any:
		for i := range v {
			v[i] = maskValue(v[i], m)
		}
	case map[string]any:
		masked := make(map[string]any, len(v))
		for name, value := range v {
			masked[m.Text(name)] = maskValue(value, m)
		}
		return masked
	}
	return v
}
