package adaptertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/threadmill/threadmill/engine/agent"
)

// drive is a session under test: it reads the entries without pause, holds each one
// against the rules, and waits for what should happen.
type drive struct {
	t        *testing.T
	patience time.Duration
	oneTurn  bool // its agent takes no messages
	rt       *Runtime
	session  agent.Session
	ended    chan struct{} // closed when the entries have ended

	mu      sync.Mutex
	entries []agent.Entry
	rules   rules
	broken  []error
}

// start starts a session for c and ends it with the test.
func start(t *testing.T, s Subject, c Case, edit ...func(*agent.Job)) *drive {
	t.Helper()
	job := jobFor(t, s, c)
	for _, f := range edit {
		f(&job)
	}
	return startJob(t, s, job)
}

func jobFor(t *testing.T, s Subject, c Case) agent.Job {
	t.Helper()
	job := s.Job(t)
	job.Prompt = c.Prompt
	if len(c.Argv) > 0 {
		job.Argv = c.Argv
	}
	return job
}

func startJob(t *testing.T, s Subject, job agent.Job) *drive {
	t.Helper()
	rt := NewRuntime(t)
	session, err := s.Adapter.Start(t.Context(), job, rt)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	return adopt(t, s, rt, session)
}

// adopt drives a session that was started.
func adopt(t *testing.T, s Subject, rt *Runtime, session agent.Session) *drive {
	t.Helper()
	d := &drive{
		t: t, patience: s.Patience, oneTurn: !s.Adapter.Traits().Messages, rt: rt, session: session,
		ended: make(chan struct{}), rules: newRules(),
	}
	go d.read()
	t.Cleanup(d.stop)
	return d
}

func (d *drive) read() {
	defer close(d.ended)
	for e := range d.session.Entries() {
		d.mu.Lock()
		d.entries = append(d.entries, e)
		if err := d.rules.check(e); err != nil {
			d.broken = append(d.broken, err)
		}
		d.mu.Unlock()
		d.rt.ring()
	}
}

// stop ends what is left and reports the rules that were broken.
func (d *drive) stop() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(d.t.Context()), d.patience)
	defer cancel()
	if err := d.session.Close(ctx); err != nil {
		d.t.Errorf("close: %v", err)
	}
	d.rt.stop()
	select {
	case <-d.ended:
	case <-ctx.Done():
		d.t.Fatalf("the entries did not end although every process was killed\n%s", d.transcript())
	}
	d.mu.Lock()
	broken := append(d.broken, d.rules.atEnd()...)
	d.mu.Unlock()
	if err := errors.Join(broken...); err != nil {
		d.t.Errorf("the entries break the rules:\n%v\n%s", err, d.transcript())
	}
}

// until waits until cond holds for the entries so far.
func (d *drive) until(what string, cond func([]agent.Entry) bool) {
	d.t.Helper()
	timeout := time.NewTimer(d.patience)
	defer timeout.Stop()
	for ended := false; ; {
		d.mu.Lock()
		ok := cond(d.entries)
		d.mu.Unlock()
		switch {
		case ok:
			return
		case ended:
			d.t.Fatalf("the session ended before %s\n%s", what, d.transcript())
		}
		select {
		case <-d.rt.bell:
		case <-d.ended:
			ended = true
		case <-timeout.C:
			d.t.Fatalf("waited in vain until %s\n%s", what, d.transcript())
		}
	}
}

// turn waits for the end of the n-th turn; where the agent takes no messages, its end
// will do.
func (d *drive) turn(n int) {
	d.t.Helper()
	d.until(fmt.Sprintf("turn %d is over", n), func(entries []agent.Entry) bool {
		return turnsIn(entries) >= n || d.oneTurn && d.hasEnded()
	})
}

func (d *drive) hasEnded() bool {
	select {
	case <-d.ended:
		return true
	default:
		return false
	}
}

// turnsIn counts the turns that are over.
func turnsIn(entries []agent.Entry) int {
	n, working := 0, false
	for _, e := range entries {
		if e.Status == nil || e.Status.Activity == "" {
			continue
		}
		if e.Status.Activity == agent.Idle && working {
			n++
		}
		working = e.Status.Activity == agent.Working
	}
	return n
}

// sees waits until text was said, given back by a tool, or printed.
func (d *drive) sees(text string) {
	d.t.Helper()
	d.until(fmt.Sprintf("%q is seen", text), func(entries []agent.Entry) bool {
		return strings.Contains(d.seen(entries), text)
	})
}

// knows checks that an entry like that has come.
func (d *drive) knows(what string, like func(agent.Entry) bool) {
	d.t.Helper()
	d.mu.Lock()
	found := slices.ContainsFunc(d.entries, like)
	d.mu.Unlock()
	if !found {
		d.t.Errorf("there is no entry with %s\n%s", what, d.transcript())
	}
}

// seesNot checks that text was not seen so far.
func (d *drive) seesNot(text string) {
	d.t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if text != "" && strings.Contains(d.seen(d.entries), text) {
		d.t.Errorf("%q must not be seen\n%s", text, d.seen(d.entries))
	}
}

// seen is all that the agent has shown: texts, results, log.
func (d *drive) seen(entries []agent.Entry) string {
	var b strings.Builder
	for _, e := range entries {
		switch e.Kind {
		case agent.KindAssistant, agent.KindThinking, agent.KindError:
			b.WriteString(e.Content)
			if !e.Append {
				b.WriteString("\n")
			}
		case agent.KindToolUse:
			if e.Tool != nil {
				b.WriteString(e.Tool.Result + "\n" + e.Tool.Diff + "\n")
			}
		case agent.KindSystem, agent.KindUser, agent.KindApproval, agent.KindQuestion, agent.KindUsage, agent.KindStatus:
		}
	}
	return b.String() + "\n" + strings.Join(d.rt.Log(), "\n")
}

// asked waits for the n-th ask of that kind and returns its entry.
func (d *drive) asked(kind agent.Kind, n int) agent.Entry {
	d.t.Helper()
	var found agent.Entry
	d.until(fmt.Sprintf("%s %d is open", kind, n), func(entries []agent.Entry) bool {
		count := 0
		for _, e := range entries {
			if e.Kind == kind && e.Ask != nil && e.Ask.State == agent.AskOpen {
				if count++; count == n {
					found = e
				}
			}
		}
		return count >= n
	})
	return found
}

// state returns the last that was told of an ask.
func (d *drive) state(id string) agent.AskState {
	d.mu.Lock()
	defer d.mu.Unlock()
	var last agent.AskState
	for _, e := range d.entries {
		if e.Ask != nil && e.ID == id {
			last = e.Ask.State
		}
	}
	return last
}

// sessionRef waits for what resumes the session.
func (d *drive) sessionRef() string {
	d.t.Helper()
	var ref string
	d.until("the session is named", func(entries []agent.Entry) bool {
		for _, e := range entries {
			if e.Status != nil && e.Status.SessionRef != "" {
				ref = e.Status.SessionRef
			}
		}
		return ref != ""
	})
	return ref
}

// must runs a call of the session within the patience and wants no error.
func (d *drive) must(what string, call func(context.Context) error) {
	d.t.Helper()
	if err := d.try(call); err != nil {
		d.t.Fatalf("%s: %v\n%s", what, err, d.transcript())
	}
}

func (d *drive) try(call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(d.t.Context(), d.patience)
	defer cancel()
	return call(ctx)
}

func (d *drive) send(id, text string) {
	d.t.Helper()
	d.must("send "+id, func(ctx context.Context) error {
		return d.session.Send(ctx, agent.Message{ID: id, Text: text, From: "suite"})
	})
}

func (d *drive) interrupt() {
	d.t.Helper()
	d.must("interrupt", d.session.Interrupt)
}

func (d *drive) decide(dec agent.Decision) {
	d.t.Helper()
	d.must("decide", func(ctx context.Context) error { return d.session.Decide(ctx, dec) })
}

// finish asks the agent to end and returns how it did.
func (d *drive) finish() agent.Outcome {
	d.t.Helper()
	d.must("close", d.session.Close)
	return d.outcome()
}

// outcome waits for the end of the session.
func (d *drive) outcome() agent.Outcome {
	d.t.Helper()
	timeout := time.NewTimer(d.patience)
	defer timeout.Stop()
	select {
	case <-d.ended:
	case <-timeout.C:
		d.t.Fatalf("the session does not end\n%s", d.transcript())
	}
	return d.session.Outcome()
}

// succeeds ends the session and wants success.
func (d *drive) succeeds() {
	d.t.Helper()
	if out := d.finish(); out.Reason != "" || out.Message != "" || out.Signal != "" || out.ExitCode != nil && *out.ExitCode != 0 {
		d.t.Errorf("the session ended with %s, want success\n%s", show(out), d.transcript())
	}
}

// maxTranscript bounds what a failure shows.
const maxTranscript = 8 << 10

// transcript is what happened, for failures.
func (d *drive) transcript() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var b strings.Builder
	for _, e := range d.entries {
		fmt.Fprintf(&b, "  %s\n", clip(show(e), 400))
	}
	for _, line := range d.rt.Log() {
		fmt.Fprintf(&b, "  log: %s\n", clip(line, 400))
	}
	text := b.String()
	if len(text) > maxTranscript {
		text = "  …" + text[len(text)-maxTranscript:]
	}
	return text
}

func clip(s string, n int) string {
	if len(s) > n {
		return s[:n] + "…"
	}
	return s
}

func show(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
