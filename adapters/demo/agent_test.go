package demo_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/threadmill/threadmill/adapters/adaptertest"
	"github.com/threadmill/threadmill/adapters/demo"
	"github.com/threadmill/threadmill/engine/agent"
)

// patience bounds every wait; nothing takes that long.
const patience = time.Minute

// talk is a session with a demo agent, as the tests see it.
type talk struct {
	t       testing.TB
	rt      *adaptertest.Runtime
	session agent.Session

	mu      sync.Mutex
	entries []agent.Entry
	more    chan struct{}
	ended   chan struct{}
}

func begin(t *testing.T, job agent.Job, prompt string) *talk {
	t.Helper()
	job.Prompt = prompt
	k := &talk{t: t, rt: adaptertest.NewRuntime(t), more: make(chan struct{}, 1), ended: make(chan struct{})}
	s, err := demo.New().Start(t.Context(), job, k.rt)
	if err != nil {
		t.Fatal(err)
	}
	k.session = s
	go k.listen()
	t.Cleanup(func() {
		k.rt.Signal(syscall.SIGKILL)
		<-k.ended
	})
	return k
}

func (k *talk) listen() {
	defer close(k.ended)
	for e := range k.session.Entries() {
		k.mu.Lock()
		k.entries = append(k.entries, e)
		k.mu.Unlock()
		select {
		case k.more <- struct{}{}:
		default:
		}
	}
}

func (k *talk) all() []agent.Entry {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.entries)
}

// wait waits for the first entry like that.
func (k *talk) wait(what string, like func(agent.Entry) bool) agent.Entry {
	k.t.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for over := false; ; {
		entries := k.all()
		if i := slices.IndexFunc(entries, like); i >= 0 {
			return entries[i]
		}
		if over {
			k.t.Fatalf("%s did not come: %+v\n%s", what, entries, strings.Join(k.rt.Log(), "\n"))
		}
		select {
		case <-k.more:
		case <-k.ended:
			over = true
		case <-timeout.C:
			over = true
		}
	}
}

func (k *talk) says(text string) agent.Entry {
	k.t.Helper()
	return k.wait(text, func(e agent.Entry) bool {
		return e.Kind == agent.KindAssistant && strings.Contains(e.Content, text)
	})
}

// finish closes the session, which finishes what it was told, and waits for its end.
func (k *talk) finish() []agent.Entry {
	k.t.Helper()
	if err := k.session.Close(k.t.Context()); err != nil {
		k.t.Fatal(err)
	}
	k.over()
	return k.all()
}

func (k *talk) over() agent.Outcome {
	k.t.Helper()
	select {
	case <-k.ended:
	case <-time.After(patience):
		k.t.Fatal("the session does not end")
	}
	return k.session.Outcome()
}

func (k *talk) send(id, text string) {
	k.t.Helper()
	if err := k.session.Send(k.t.Context(), agent.Message{ID: id, Text: text}); err != nil {
		k.t.Fatal(err)
	}
}

// play runs a script to its end in a directory.
func play(t *testing.T, dir, script string) []agent.Entry {
	t.Helper()
	job := jobs(t)(t)
	job.Dir = dir
	return begin(t, job, script).finish()
}

// texts returns what was said, streamed parts joined.
func texts(entries []agent.Entry) (said []string) {
	at := map[string]int{}
	for _, e := range entries {
		if e.Kind != agent.KindAssistant {
			continue
		}
		if i, ok := at[e.ID]; ok && e.Append {
			said[i] += e.Content
		} else if ok {
			said[i] = e.Content
		} else {
			at[e.ID] = len(said)
			said = append(said, e.Content)
		}
	}
	return said
}

func tools(entries []agent.Entry) (list []agent.Tool) {
	for _, e := range entries {
		if e.Tool != nil {
			list = append(list, *e.Tool)
		}
	}
	return list
}

func TestLines(t *testing.T) {
	t.Parallel()
	entries := play(t, t.TempDir(), "lines 3 1ms")
	last := entries[len(entries)-2] // before idle
	if last.Append || last.Content != "line 1\nline 2\nline 3\n" {
		t.Errorf("the last entry is %+v, want the whole text", last)
	}
}

// TestLinesMany checks that megabytes are told once.
func TestLinesMany(t *testing.T) {
	t.Parallel()
	entries := play(t, t.TempDir(), "lines 20000")
	var want strings.Builder
	for n := range 20000 {
		fmt.Fprintf(&want, "line %d\n", n+1)
	}
	if said := texts(entries); len(said) != 1 || said[0] != want.String() {
		t.Error("the lines are not complete")
	}
	if slices.ContainsFunc(entries, func(e agent.Entry) bool { return e.Kind == agent.KindAssistant && !e.Append }) {
		t.Error("a long text is repeated")
	}
}

func TestFlood(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, 99, 100, 32<<10 + 7, 3 << 20} {
		text := strings.Join(texts(play(t, t.TempDir(), fmt.Sprintf("flood %d", size))), "")
		if len(text) != size {
			t.Fatalf("flood %d says %d bytes", size, len(text))
		}
		n := 0
		for line := range strings.Lines(text) {
			n++
			if len(line) > 12 && !strings.HasPrefix(line, fmt.Sprintf("%012d ", n)) {
				t.Fatalf("line %d is %q", n, line)
			}
		}
	}
}

func TestTool(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir()) // as pwd shows it
	if err != nil {
		t.Fatal(err)
	}
	got := tools(play(t, dir, `tool sh -c 'pwd; echo "$0"; exit 3' '$(id);x'; tool no-such-program; tool sh -c 'yes | head -c 100000'`))
	if len(got) != 6 {
		t.Fatalf("%d tool entries, want 6: %+v", len(got), got)
	}
	if r := got[1]; r.Status != agent.ToolFailed || *r.ExitCode != 3 || r.Result != dir+"\n$(id);x\n" {
		t.Errorf("the first tool ended with %+v", r)
	}
	if r := got[3]; r.Status != agent.ToolFailed || r.ExitCode != nil || !strings.Contains(r.Result, "no-such-program") {
		t.Errorf("a missing tool ended with %+v", r)
	}
	if r := got[5]; r.Status != agent.ToolSuccess || len(r.Result) > 17<<10 || !strings.HasPrefix(r.Result, "…") {
		t.Errorf("a loud tool ended with %d bytes", len(r.Result))
	}
}

func TestEdit(t *testing.T) {
	t.Parallel()
	outside, dir := t.TempDir(), t.TempDir()
	if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("edit new.txt one; edit new.txt two words; edit ../x no; edit link/x no; edit %s/x no; edit . no", outside)
	got := tools(play(t, dir, script))
	if b, err := os.ReadFile(filepath.Join(dir, "new.txt")); err != nil || string(b) != "one\ntwo words\n" {
		t.Errorf("the file has %q (%v)", b, err)
	}
	if r := got[3]; r.Status != agent.ToolSuccess || r.Action != agent.ActionFileEdit || r.Path != "new.txt" ||
		r.Diff != "--- a/new.txt\n+++ b/new.txt\n@@ -1 +1,2 @@\n one\n+two words\n" {
		t.Errorf("the edit told %+v", r)
	}
	for i := 5; i < len(got); i += 2 {
		if got[i].Status != agent.ToolFailed || got[i].Result == "" {
			t.Errorf("an edit outside told %+v", got[i])
		}
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
		t.Errorf("outside there is %v (%v)", left, err)
	}
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	said := texts(play(t, t.TempDir(), "env"))
	want := "```\nPATH=" + os.Getenv("PATH") + "\nSOMETHING=else\n```"
	if len(said) != 1 || said[0] != want {
		t.Errorf("env says %q, want %q", said, want)
	}
}

func TestAttachments(t *testing.T) {
	t.Parallel()
	job := jobs(t)(t)
	job.Attachments = []string{"/tmp/a.png", "/tmp/b.txt"}
	if said := texts(begin(t, job, "look").finish()); len(said) != 1 || !strings.Contains(said[0], "With /tmp/a.png, /tmp/b.txt.") {
		t.Errorf("it says %q", said)
	}
}

func TestPermissionModes(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]agent.ToolStatus{
		"bypassPermissions": agent.ToolSuccess, "dontAsk": agent.ToolFailed, "plan": agent.ToolFailed,
	} {
		job := jobs(t)(t)
		job.Permission = mode
		entries := begin(t, job, "approve true").finish()
		got := tools(entries)
		if got[len(got)-1].Status != want {
			t.Errorf("in mode %s the tool ended as %s, want %s", mode, got[len(got)-1].Status, want)
		}
		if slices.ContainsFunc(entries, func(e agent.Entry) bool { return e.Ask != nil }) {
			t.Errorf("mode %s asks", mode)
		}
	}
}

// TestModifiedInputRefused keeps the ask open when the new input makes no sense.
func TestModifiedInputRefused(t *testing.T) {
	t.Parallel()
	k := begin(t, jobs(t)(t), "approve echo yes")
	ask := k.wait("an ask", func(e agent.Entry) bool { return e.Ask != nil })
	for _, input := range []string{`{}`, `{"command":""}`, `{"command":"it's"}`, `[]`} {
		d := agent.Decision{AskID: ask.ID, Allow: true, ModifiedInput: []byte(input)}
		if err := k.session.Decide(t.Context(), d); err == nil {
			t.Errorf("input %s is taken", input)
		}
	}
	if err := k.session.Decide(t.Context(), agent.Decision{AskID: ask.ID, Allow: true}); err != nil {
		t.Fatal(err)
	}
	k.wait("the tool's end", func(e agent.Entry) bool { return e.Tool != nil && e.Tool.Result == "yes\n" })
}

// TestSteeredInOrder checks that messages which come into a turn are answered in their
// order, while it goes on.
func TestSteeredInOrder(t *testing.T) {
	t.Parallel()
	k := begin(t, jobs(t)(t), "say begun; sleep 1h")
	k.says("begun")
	const n = 50
	for i := range n {
		k.send(strconv.Itoa(i), fmt.Sprintf("message %d.", i))
	}
	k.says(fmt.Sprintf("message %d.", n-1))
	said := texts(k.all())
	for i := range n {
		if !strings.HasPrefix(said[i+1], fmt.Sprintf("You said: message %d.\n", i)) {
			t.Errorf("answer %d is %q", i, said[i+1])
		}
	}
}

// TestInterruptKeepsMessages checks that what was steered in and not yet run has its
// turn after the interrupt.
func TestInterruptKeepsMessages(t *testing.T) {
	t.Parallel()
	k := begin(t, jobs(t)(t), "say begun; sleep 1h")
	k.says("begun")
	k.send("m2", "say folded; sleep 1h")
	k.says("folded")
	k.send("m3", "say after")
	if err := k.session.Interrupt(t.Context()); err != nil {
		t.Fatal(err)
	}
	k.says("after")
	k.finish()
}

// TestInterruptKillsTool checks that no tool outlives its turn.
func TestInterruptKillsTool(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	job := jobs(t)(t)
	job.Dir = dir
	k := begin(t, job, `tool sh -c 'echo $$ > pid.tmp; mv pid.tmp pid; exec sleep 600'`)
	pid := waitForPid(t, filepath.Join(dir, "pid"))
	if err := k.session.Interrupt(t.Context()); err != nil {
		t.Fatal(err)
	}
	k.wait("the tool's end", func(e agent.Entry) bool { return e.Tool != nil && e.Tool.Status == agent.ToolFailed })
	if err := syscall.Kill(pid, 0); err == nil {
		t.Error("the tool is still there")
	}
}

// waitForPid waits for a file with a process id.
func waitForPid(t *testing.T, path string) int {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		b, err := os.ReadFile(path)
		if err == nil {
			pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("%s does not appear", path)
		}
	}
}

func TestFork(t *testing.T) {
	t.Parallel()
	k := begin(t, jobs(t)(t), "fork 10m; sleep 1h")
	text := k.says("A child left with pid").Content
	pid, err := strconv.Atoi(strings.Trim(text[strings.LastIndex(text, " ")+1:], "."))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(pid, syscall.SIGKILL) }()
	agentPid := k.wait("the agent's pid", func(e agent.Entry) bool { return e.Status != nil && e.Status.Pid != 0 }).Status.Pid
	group, err := syscall.Getpgid(pid)
	if err != nil || group == agentPid || group == syscall.Getpgrp() {
		t.Errorf("the child is in group %d (%v), the agent in %d", group, err, agentPid)
	}
}

func TestIgnoreTerm(t *testing.T) {
	t.Parallel()
	k := begin(t, jobs(t)(t), "ignore-term; sleep 1h")
	k.says("I ignore SIGTERM")
	k.rt.Signal(syscall.SIGTERM)
	k.send("m2", "say still here")
	k.says("still here")
	k.rt.Signal(syscall.SIGKILL)
	if out := k.over(); out.Signal != "SIGKILL" {
		t.Errorf("outcome %+v, want that SIGKILL ended it", out)
	}
}

// TestNoSessionWritten says what to do where sessions cannot be kept.
func TestNoSessionWritten(t *testing.T) {
	t.Parallel()
	job := jobs(t)(t)
	job.Options = map[string]any{"state_dir": "/dev/null/no"}
	k := begin(t, job, "say hello")
	if out := k.over(); out.Reason != agent.ReasonAgentError || !strings.Contains(out.Message, "state_dir") {
		t.Errorf("outcome %+v, want a hint at state_dir", out)
	}
}

// TestStateDirs looks for the session's file where the environment says.
func TestStateDirs(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	for env, dir := range map[string]string{
		"HOME=" + home:                filepath.Join(home, ".local", "state"),
		"XDG_STATE_HOME=" + home:      home,
		"HOME=/nowhere\nHOME=" + home: filepath.Join(home, ".local", "state"),
	} {
		job := jobs(t)(t)
		job.Options = nil
		job.Env = append(job.Env, strings.Split(env, "\n")...)
		k := begin(t, job, "say hello")
		ref := k.wait("the session", func(e agent.Entry) bool { return e.Status != nil && e.Status.SessionRef != "" }).Status.SessionRef
		k.finish()
		if _, err := os.Stat(filepath.Join(dir, "threadmill-demo", ref+".jsonl")); err != nil {
			t.Errorf("with %s: %v", env, err)
		}
	}
}

// BenchmarkMessage is the way of a message to the agent and of its answer back, into a
// running turn.
func BenchmarkMessage(b *testing.B) {
	rt := adaptertest.NewRuntime(b)
	exe, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	job := agent.Job{
		Argv: []string{exe, program}, Dir: b.TempDir(), Prompt: "sleep 1h",
		Options: map[string]any{"state_dir": b.TempDir()},
	}
	s, err := demo.New().Start(b.Context(), job, rt)
	if err != nil {
		b.Fatal(err)
	}
	answers := make(chan struct{}, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range s.Entries() {
			if e.Kind == agent.KindAssistant {
				answers <- struct{}{}
			}
		}
	}()
	var slowest time.Duration
	for b.Loop() {
		start := time.Now()
		if err := s.Send(context.WithoutCancel(b.Context()), agent.Message{ID: "m", Text: "hello"}); err != nil {
			b.Fatal(err)
		}
		<-answers
		slowest = max(slowest, time.Since(start))
	}
	b.ReportMetric(float64(slowest.Milliseconds()), "ms-slowest")
	rt.Signal(syscall.SIGKILL)
	<-done
}
