package web_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/threadmill/threadmill/bot/web/api"
	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/rundir"
)

// event is one server-sent event.
type event struct {
	id, name, data string
}

// stream is an open event stream.
type stream struct {
	t    *testing.T
	resp *http.Response
	in   *bufio.Reader
}

// open begins a stream, on from the event with that id where there is one.
func (r *rig) open(t *testing.T, path, last string) *stream {
	t.Helper()
	q := request{path: path}
	if last != "" {
		q.header = http.Header{"Last-Event-Id": {last}}
	}
	tr := &http.Transport{DisableKeepAlives: true}
	resp, err := tr.RoundTrip(q.build(t, r.http.URL))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		resp.Body.Close()
		tr.CloseIdleConnections()
	})
	if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		t.Fatalf("the stream began with %s, %v", resp.Status, resp.Header)
	}
	return &stream{t: t, resp: resp, in: bufio.NewReader(resp.Body)}
}

// next returns the next event; ok is false at the end.
func (s *stream) next() (e event, ok bool) {
	s.t.Helper()
	for {
		line, err := s.in.ReadString('\n')
		if err != nil {
			return e, false
		}
		field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch field {
		case "id":
			e.id = value
		case "event":
			e.name = value
		case "data":
			e.data = value
		case "":
			if e.name != "" {
				return e, true
			}
		}
	}
}

// until returns the events up to and with the first of that name.
func (s *stream) until(name string) []event {
	s.t.Helper()
	var all []event
	for {
		e, ok := s.next()
		if !ok {
			s.t.Fatalf("the stream ended without %q after %v", name, all)
		}
		all = append(all, e)
		if e.name == name {
			return all
		}
	}
}

// restored puts the prefixes of a log's events back.
func restored(t *testing.T, events []event) string {
	t.Helper()
	var b strings.Builder
	for _, e := range events {
		if e.name != api.EventLog && e.name != api.EventCatchup {
			continue
		}
		l := decode[api.LogEvent](t, e.data)
		for line := range strings.Lines(l.Content) {
			fmt.Fprintf(&b, "[%s] %s", l.Stream, line)
		}
	}
	return b.String()
}

func decode[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return v
}

func logPath(ref any) string { return fmt.Sprintf("/api/executions/%v/logs", ref) }

func whole(lines []string) string { return strings.Join(lines, "\n") + "\n" }

func TestALogIsCaughtUpWithAndThenLive(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	x, run := r.start(t, "chat", "hello")
	lines := numbered(600) // several segments
	run.log(t, lines[:400]...)
	s := r.open(t, logPath(x.ID)+"/stream", "")
	var events []event
	for len(events) == 0 || events[len(events)-1].name != api.EventCatchup || !decode[api.LogEvent](t, events[len(events)-1].data).Complete {
		e, ok := s.next()
		if !ok {
			t.Fatal("the stream ended")
		}
		events = append(events, e)
	}
	if first := decode[api.StatusEvent](t, events[0].data); events[0].name != api.EventStatus || first.ExecutionID != x.ID || first.Number != 1 {
		t.Errorf("it began with %v", events[0])
	}
	if diff := cmp.Diff(whole(lines[:400]), restored(t, events)); diff != "" {
		t.Error(diff)
	}
	for i := 400; i < 600; i += 50 {
		run.log(t, lines[i:i+50]...)
	}
	run.end(t, 0)
	live := s.until(api.EventDone)
	if diff := cmp.Diff(whole(lines[400:]), restored(t, live)); diff != "" {
		t.Error(diff)
	}
	if slices.ContainsFunc(live, func(e event) bool { return e.name == api.EventCatchup }) {
		t.Error("new lines came as catchup")
	}
	if d := decode[api.DoneEvent](t, live[len(live)-1].data); d.Status != engine.Succeeded || d.ExitCode == nil || *d.ExitCode != 0 {
		t.Errorf("done is %+v", d)
	}
	if _, more := s.next(); more {
		t.Error("something came after done")
	}
}

func TestLinesOfOneStreamAreOneEvent(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	x := r.finished(t, "[stdout] a", "[stdout] b", "[stderr] c", "[system] d", "[system] e")
	var got []api.LogEvent
	for _, e := range r.open(t, logPath(x.ID)+"/stream", "").until(api.EventDone) {
		if e.name == api.EventCatchup {
			got = append(got, decode[api.LogEvent](t, e.data))
		}
	}
	want := []api.LogEvent{
		{Content: "a\nb\n", Stream: agent.Stdout},
		{Content: "c\n", Stream: agent.Stderr},
		{Content: "d\ne\n", Stream: agent.System},
		{Stream: agent.Stdout, Complete: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAStreamResumesAtEveryLine(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	lines := append(numbered(40), "no prefix: "+strings.Repeat("x", 9000), "[stdout] ", "[stdout]", "[stderr] last")
	x := r.finished(t, lines...)
	log := whole(lines)
	for at := 0; at <= len(log); at++ {
		if at > 0 && log[at-1] != '\n' {
			continue
		}
		events := r.open(t, logPath(x.ID)+"/stream", strconv.Itoa(at)).until(api.EventDone)
		if got, want := restored(t, events), fixPrefixes(log[at:]); got != want {
			t.Fatalf("on from byte %d: %s", at, cmp.Diff(want, got))
		}
		if id := events[len(events)-1].id; id != strconv.Itoa(len(log)) {
			t.Fatalf("on from byte %d it ended at %s", at, id)
		}
	}
}

// fixPrefixes gives lines without a prefix the one they are shown under.
func fixPrefixes(log string) string {
	var b strings.Builder
	for line := range strings.Lines(log) {
		if !strings.HasPrefix(line, "[stdout] ") && !strings.HasPrefix(line, "[stderr] ") && !strings.HasPrefix(line, "[system] ") {
			b.WriteString("[stdout] ")
		}
		b.WriteString(line)
	}
	return b.String()
}

// Every event of a stream is a place to go on from, wherever the connection broke.
func TestAStreamResumesAfterEveryEvent(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	lines := numbered(300)
	x := r.finished(t, lines...)
	all := r.open(t, logPath(x.ID)+"/stream", "").until(api.EventDone)
	for i, e := range all {
		if e.id == "" || e.name == api.EventDone {
			continue
		}
		rest := r.open(t, logPath(x.ID)+"/stream", e.id).until(api.EventDone)
		if got := restored(t, all[:i+1]) + restored(t, rest); got != whole(lines) {
			t.Fatalf("after event %d: %s", i, cmp.Diff(whole(lines), got))
		}
	}
}

func TestAnIDWithinALineGoesBackToItsStart(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	x := r.finished(t, "[stdout] one", "[stdout] two")
	events := r.open(t, logPath(x.ID)+"/stream", "20").until(api.EventDone)
	if got := restored(t, events); got != "[stdout] two\n" {
		t.Errorf("got %q", got)
	}
}

func TestATornLastLineComesAtTheEndAndOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	x, run := r.start(t, "chat", "hello")
	run.log(t, "[stdout] whole")
	s := r.open(t, logPath(x.ID)+"/stream", "")
	run.torn(t, "[stdout] ha")
	run.end(t, 0)
	events := s.until(api.EventDone)
	if got := restored(t, events); got != "[stdout] whole\n[stdout] ha" {
		t.Errorf("got %q", got)
	}
	again := r.open(t, logPath(x.ID)+"/stream", events[len(events)-1].id).until(api.EventDone)
	if got := restored(t, again); got != "" {
		t.Errorf("after the end came %q", got)
	}
}

func TestAStreamOfTheLastLines(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	lines := numbered(900)
	x := r.finished(t, lines...)
	for _, n := range []int{1, 2, 500, 899, 900, 901, 5000} {
		want := whole(lines[max(0, len(lines)-n):])
		events := r.open(t, fmt.Sprintf("%s/stream?tail=%d", logPath(x.ID), n), "").until(api.EventDone)
		if got := restored(t, events); got != want {
			t.Errorf("tail %d: %s", n, cmp.Diff(want, got))
		}
		if a := r.do(t, request{path: fmt.Sprintf("%s?tail=%d", logPath(x.ID), n)}); a.body != want {
			t.Errorf("download of tail %d: %s", n, cmp.Diff(want, a.body))
		}
	}
}

func TestAStreamOfAnExecutionThatWaitsBeginsWithItsStart(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	blocker, run := r.start(t, "solo", "first")
	if err := r.engine.SetCatalog(queueing(r)); err != nil {
		t.Fatal(err)
	}
	x, err := r.client.Create(t.Context(), api.CreateRequest{Capability: "solo", Text: "second"})
	if err != nil {
		t.Fatal(err)
	}
	logs, entries := r.open(t, logPath(x.ID)+"/stream", ""), r.open(t, "/api/executions/2/entries/stream", "")
	if e, _ := logs.next(); decode[api.StatusEvent](t, e.data).Status != engine.Queued {
		t.Errorf("it began with %v", e)
	}
	run.end(t, 0)
	r.await(t, blocker.ID, engine.Status.Ended)
	next := r.host.run(t, x.ID)
	next.log(t, "[stdout] at last")
	next.end(t, 0)
	if got := restored(t, logs.until(api.EventDone)); got != "[stdout] at last\n" {
		t.Errorf("got %q", got)
	}
	entries.until(api.EventDone)
}

// queueing is the catalog with the busy agent queueing instead of rejecting.
func queueing(r *rig) engine.Catalog {
	c := catalog(r.host.data)
	a := c.Agents["busy"]
	a.OnBusy = engine.BusyQueue
	c.Agents["busy"] = a
	return c
}

func TestEntriesArePagedAndStreamed(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	x, run := r.start(t, "chat", "hello")
	s := r.open(t, "/api/executions/1/entries/stream", "")
	for i := range 500 {
		run.entry(t, agent.Entry{Kind: agent.KindAssistant, Content: fmt.Sprintf("<entry %d>", i)})
	}
	run.end(t, 0)
	var seqs []int64
	for _, e := range s.until(api.EventDone) {
		if e.name == api.EventEntry {
			got := decode[agent.Entry](t, e.data)
			seqs = append(seqs, got.Seq)
			if e.id != strconv.FormatInt(got.Seq, 10) {
				t.Fatalf("entry %d has the id %s", got.Seq, e.id)
			}
		}
	}
	if len(seqs) != 501 || seqs[0] != 1 || seqs[500] != 501 || !slices.IsSorted(seqs) {
		t.Errorf("streamed %d entries, %v", len(seqs), seqs)
	}
	rest := r.open(t, "/api/executions/1/entries/stream", "499").until(api.EventDone)
	if n := len(rest); n != 4 { // status, 500, 501, done
		t.Errorf("resumed with %v", rest)
	}
	var after int64
	for total := 0; ; {
		page, next, err := r.client.Entries(t.Context(), x.ID, after, 200)
		if err != nil {
			t.Fatal(err)
		}
		if total += len(page); len(page) == 0 {
			if total != 501 || next != 501 {
				t.Errorf("paged through %d entries to %d", total, next)
			}
			return
		}
		after = next
	}
}

func TestAStreamTellsChangesOfStatus(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	x, run := r.start(t, "chat", "hello")
	s := r.open(t, logPath(x.ID)+"/stream", "")
	s.until(api.EventStatus)
	run.entry(t, agent.Entry{Kind: agent.KindStatus, Status: &agent.Status{Activity: agent.Idle}})
	for {
		events := s.until(api.EventStatus)
		if decode[api.StatusEvent](t, events[len(events)-1].data).Activity == agent.Idle {
			break
		}
	}
	if err := run.result(rundir.Result{Status: rundir.Cancelled}); err != nil {
		t.Fatal(err)
	}
}

func TestALogIsDownloaded(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	lines := numbered(500)
	x := r.finished(t, lines...)
	log := whole(lines)
	for name, c := range map[string]struct {
		rng    string
		status int
		want   string
	}{
		"whole":    {"", 200, log},
		"start":    {"bytes=0-9", 206, log[:10]},
		"segments": {"bytes=4000-9000", 206, log[4000:9001]},
		"end":      {"bytes=-5", 206, log[len(log)-5:]},
		"beyond":   {"bytes=99999999-", 416, ""},
	} {
		q := request{path: logPath(x.Number)}
		if c.rng != "" {
			q.header = http.Header{"Range": {c.rng}}
		}
		a := r.do(t, q)
		if a.status != c.status || c.want != "" && a.body != c.want {
			t.Errorf("%s: %d, %s", name, a.status, cmp.Diff(c.want, a.body))
		}
	}
	a := r.do(t, request{path: logPath(x.Number)})
	if cd := a.header.Get("Content-Disposition"); cd != `attachment; filename="threadmill-1.log"` {
		t.Errorf("it is named by %q", cd)
	}
	if a := r.do(t, request{method: http.MethodHead, path: logPath(x.Number)}); a.status != 200 || a.header.Get("Content-Length") != strconv.Itoa(len(log)) {
		t.Errorf("HEAD answers %d, %v", a.status, a.header)
	}
}

func TestAClientThatGoesEndsItsStream(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	x, _ := r.start(t, "chat", "hello")
	ctx, cancel := context.WithCancel(t.Context())
	req := request{path: logPath(x.ID) + "/stream"}.build(t, r.http.URL).WithContext(ctx)
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	clients := func() bool {
		return strings.Contains(r.do(t, request{path: "/metrics"}).body, `threadmill_stream_clients{kind="logs"} 1`)
	}
	eventually(t, func() (bool, string) { return clients(), "no client is counted" })
	cancel()
	eventually(t, func() (bool, string) { return !clients(), "the client is still counted" })
}

// A client that does not read holds up nobody but itself, and loses nothing.
func TestASlowClientWaitsForItselfAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	x, run := r.start(t, "chat", "hello")
	slow := r.open(t, logPath(x.ID)+"/stream", "")
	lines := make([]string, 3000)
	for i := range lines {
		lines[i] = fmt.Sprintf("[stdout] %d %s", i, strings.Repeat("x", 3000))
	}
	for chunk := range slices.Chunk(lines, 100) {
		run.log(t, chunk...)
	}
	run.end(t, 0)
	quick := r.open(t, logPath(x.ID)+"/stream", "")
	if restored(t, quick.until(api.EventDone)) != whole(lines) {
		t.Error("the quick client did not get the whole log")
	}
	if restored(t, slow.until(api.EventDone)) != whole(lines) {
		t.Error("the slow client did not get the whole log")
	}
}

func TestAHeadOfAStreamEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.start(t, "chat", "hello")
	for _, p := range []string{"/api/executions/1/logs/stream", "/api/executions/1/entries/stream"} {
		if a := r.do(t, request{method: http.MethodHead, path: p}); a.status != 200 || a.body != "" {
			t.Errorf("%s: %d %q", p, a.status, a.body)
		}
	}
}

func TestAStreamEndsWithTheService(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	x, run := r.start(t, "chat", "hello")
	run.log(t, "[stdout] one")
	s := r.open(t, logPath(x.ID)+"/stream", "")
	s.until(api.EventCatchup)
	r.server.Stop()
	for {
		e, ok := s.next()
		if !ok {
			return
		}
		if e.name == api.EventDone {
			t.Fatal("a stream that was cut says that it is done")
		}
	}
}

// A broken file is an error with a reference, and the connection is cut: the client
// must not take half a log for the whole.
func TestAStreamThatFailsIsCut(t *testing.T) {
	t.Parallel()
	broken := &brokenFiles{err: errors.New("disk on fire")}
	r := newRig(t, broken.install)
	x := r.finished(t, numbered(10)...)
	s := r.open(t, "/api/executions/1/entries/stream", "")
	for {
		e, ok := s.next()
		if !ok {
			break
		}
		if e.name == api.EventDone {
			t.Fatal("a stream that failed says that it is done")
		}
	}
	if log := r.log.String(); !strings.Contains(log, "disk on fire") || !strings.Contains(log, "reference=") {
		t.Errorf("of %s the log says %q", x.ID, log)
	}
}
