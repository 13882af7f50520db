package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/agent"
)

const endConfig = `
engine:
  max_concurrent: 100
  allowed_working_dirs: [$WORK]
agents:
  demo: {adapter: demo, working_dir: $WORK, max_concurrent: 100, idle_timeout: 20m}
  shell: {adapter: command, working_dir: $WORK, max_concurrent: 100}
  outside: {adapter: command, working_dir: $WORK/escape}
  dots: {adapter: command, working_dir: $WORK/../home}
  missing: {adapter: command, working_dir: $WORK/nowhere}
`

// capability is a capability's file that runs a command line.
func capability(key, command, more string) string {
	return fmt.Sprintf("key: %s\nlabel: %s\nagent: shell\nmode: template\ncommand: %s\n%s", key, key, command, more)
}

func endCapabilities() map[string]string {
	text := "args_schema: {type: object, required: [word], additionalProperties: false, properties: {word: {type: string}}}\n"
	files := map[string]string{
		"greet":   capability("greet", `[sh, -c, "echo out; echo err >&2"]`, ""),
		"fails":   capability("fails", `[sh, -c, "echo trying; exit 3"]`, ""),
		"sleeps":  capability("sleeps", `[sleep, "3600"]`, ""),
		"slow":    capability("slow", `[sh, -c, "echo begun; sleep 3600"]`, "timeout: 1s\n"),
		"floods":  capability("floods", `[yes, "a line of output"]`, "max_output_bytes: 100000\n"),
		"ignores": capability("ignores", `[sh, -c, "trap '' TERM; echo ready; while :; do sleep 1; done"]`, ""),
		"runaway": capability("runaway", `[sh, -c, "setsid sh -c 'setsid sleep 3600 & setsid sleep 3600 &' & echo ready; sleep 3600"]`, ""),
		"leaves":  capability("leaves", `[sh, -c, "setsid sleep 3600 >/dev/null 2>&1 & echo done"]`, ""),
		"echoes":  capability("echoes", `[echo, "{{word}}"]`, text),
		"environ": capability("environ", `[env]`, ""),
		"absent":  capability("absent", `[no-such-program-anywhere]`, ""),
	}
	for _, a := range []string{"outside", "dots", "missing"} {
		files[a] = strings.Replace(capability(a, "[pwd]", ""), "agent: shell", "agent: "+a, 1)
	}
	return files
}

// TestEnds runs commands to each of their ends, one after the other.
func TestEnds(t *testing.T) {
	t.Parallel()
	s := newService(t, endConfig, endCapabilities())
	s.start()
	tests := []struct {
		capability string
		cancelOn   string // cancel once it has printed this line
		force      bool
		status     engine.Status
		reason     agent.Reason
		exit       int // -1: none
		log        string
		task       engine.TaskStatus
		ended      bool // processes had to be signalled
	}{
		{capability: "greet", status: engine.Succeeded, exit: 0, log: "[stdout] out", task: engine.Review},
		{capability: "fails", status: engine.Failed, reason: agent.ReasonExitCode, exit: 3, log: "[stdout] trying", task: engine.Todo},
		{capability: "slow", status: engine.TimedOut, exit: -1, log: "[stdout] begun", task: engine.Todo, ended: true},
		{capability: "floods", status: engine.Failed, reason: agent.ReasonOutputLimit, exit: -1, log: "[stdout] a line of output", task: engine.Todo, ended: true},
		{capability: "ignores", cancelOn: "ready", status: engine.Cancelled, exit: -1, log: "[stdout] ready", task: engine.Todo, ended: true},
		{capability: "ignores", cancelOn: "ready", force: true, status: engine.Cancelled, exit: -1, log: "[stdout] ready", task: engine.Todo, ended: true},
		{capability: "runaway", cancelOn: "ready", status: engine.Cancelled, exit: -1, log: "[stdout] ready", task: engine.Todo, ended: true},
		{capability: "leaves", status: engine.Succeeded, exit: 0, log: "[stdout] done", task: engine.Review, ended: true},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%s/force=%v", tt.capability, tt.force), func(t *testing.T) {
			t.Parallel()
			s := s.with(t)
			x := s.submit(map[string]any{"capability": tt.capability})
			if tt.cancelOn != "" {
				s.eventually("the log says "+tt.cancelOn, func() bool {
					b, _ := os.ReadFile(filepath.Join(s.dir(x.ID), "output.log"))
					return strings.Contains(string(b), "[stdout] "+tt.cancelOn+"\n") // not the command that will say it
				})
				s.call("POST", "/api/executions/"+x.ID+"/cancel", map[string]any{"force": tt.force}, nil)
			}
			x = s.wait(x.ID)
			if x.Status != tt.status || x.Reason != tt.reason {
				t.Errorf("it ended as %s (%s): %s", x.Status, x.Reason, x.Error)
			}
			if got := exitCode(x); got != tt.exit {
				t.Errorf("exit code %d, want %d", got, tt.exit)
			}
			if pids := left(t, x.ID); len(pids) > 0 || x.Left != 0 {
				t.Errorf("processes are left: %v (it says %d)", pids, x.Left)
			}
			if (x.Ended > 0) != tt.ended {
				t.Errorf("it says that %d processes were ended", x.Ended)
			}
			s.checkFiles(x, tt.log, tt.task)
		})
	}
}

// exitCode is an execution's exit code, or -1.
func exitCode(x engine.Execution) int {
	if x.ExitCode == nil {
		return -1
	}
	return *x.ExitCode
}

// checkFiles checks what an ended execution has left to be read.
func (s *service) checkFiles(x engine.Execution, line string, want engine.TaskStatus) {
	s.Helper()
	log := s.logLines(x.ID)
	found := false
	for _, l := range log {
		if !strings.HasPrefix(l, "[stdout] ") && !strings.HasPrefix(l, "[stderr] ") && !strings.HasPrefix(l, "[system] ") {
			s.Errorf("a log line without its stream: %q", l)
		}
		found = found || l == line
	}
	if !found {
		s.Errorf("the log lacks %q; it has %d lines and begins %q", line, len(log), log[:min(5, len(log))])
	}
	if len(s.entries(x.ID)) == 0 {
		s.Error("there are no entries")
	}
	var task engine.Task
	s.call("GET", "/api/tasks/"+x.TaskID, nil, &task)
	if task.Status != want || len(task.Tail) == 0 {
		s.Errorf("the task is in %s with %d lines of tail and the error %q; want it in %s", task.Status, len(task.Tail), task.Error, want)
	}
	if (task.Error == "") != (want == engine.Review) {
		s.Errorf("the task in %s has the error %q", task.Status, task.Error)
	}
}

// with is the same service for a subtest.
func (s *service) with(tb testing.TB) *service {
	tb.Helper()
	c := *s
	c.TB = tb
	return &c
}

// TestEnvironment looks at what an agent and the tmux server get to see.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	s := newService(t, endConfig, endCapabilities())
	s.start()
	for _, body := range []map[string]any{{"capability": "environ"}, {"capability": "demo", "text": "env", "once": true}} {
		x := s.wait(s.submit(body).ID)
		log := strings.Join(s.logLines(x.ID), "\n")
		if x.Status != engine.Succeeded || !strings.Contains(log, "THREADMILL_EXECUTION="+x.ID) {
			t.Errorf("%v: it ended as %s and wrote:\n%s", body, x.Status, log)
		}
		for _, secret := range []string{"must-not-reach-an-agent", "THREADMILL_HOME", "THREADMILL_LISTEN", "THREADMILL_CONFIG", "RUNTIME_DIRECTORY", "TMUX"} {
			if strings.Contains(log, secret) {
				t.Errorf("%v: the environment holds %s:\n%s", body, secret, log)
			}
		}
	}
	s.running(s.submit(map[string]any{"capability": "sleeps"}).ID) // so that tmux has a session
	out, err := exec.Command("tmux", "-S", s.tmuxSocket(), "show-environment", "-g").CombinedOutput()
	must(t, err)
	for _, secret := range []string{"SERVICE_SECRET", "THREADMILL", "HOME=", "XDG_"} {
		if strings.Contains(string(out), secret) {
			t.Errorf("the tmux server's environment holds %s:\n%s", secret, out)
		}
	}
}

// TestRefusals asks for what must not run: each is refused in words, and nothing starts.
func TestRefusals(t *testing.T) {
	t.Parallel()
	s := newService(t, endConfig, endCapabilities())
	must(t, os.Symlink("/etc", filepath.Join(s.work(), "escape")))
	s.start()
	echo := func(word any) map[string]any {
		return map[string]any{"capability": "echoes", "args": map[string]any{"word": word}}
	}
	tests := []struct {
		name string
		body map[string]any
		says string
	}{
		{"a symlink out of the allowed directory", map[string]any{"capability": "outside"}, "/etc"},
		{"dots", map[string]any{"capability": "dots"}, "working directory"},
		{"a missing directory", map[string]any{"capability": "missing"}, "nowhere"},
		{"a newline", echo("a\nb"), "word"},
		{"a NUL", echo("a\x00b"), "word"},
		{"a leading dash", echo("-rf"), "word"},
		{"an object", echo(map[string]any{"a": 1}), "word"},
		{"an array", echo([]string{"a"}), "word"},
		{"an unknown argument", map[string]any{"capability": "echoes", "args": map[string]any{"word": "a", "more": "b"}}, "more"},
		{"a missing argument", map[string]any{"capability": "echoes"}, "word"},
		{"a missing program", map[string]any{"capability": "absent"}, "no-such-program-anywhere"},
		{"an unknown capability", map[string]any{"capability": "nope"}, "nope"},
		{"an unknown field", map[string]any{"capability": "greet", "shell": "sh"}, "shell"},
		{"no text for an agent", map[string]any{"capability": "demo"}, "text"},
	}
	for _, tt := range tests {
		err := s.try("POST", "/api/executions", tt.body, nil)
		var refused *callError
		if !errors.As(err, &refused) || refused.Status < 400 || refused.Status >= 500 || !strings.Contains(refused.Text, tt.says) {
			t.Errorf("%s: got %v, want a 4xx that mentions %q", tt.name, err, tt.says)
		}
	}
	var all []engine.Execution
	s.call("GET", "/api/executions", nil, &all)
	if len(all) != 0 {
		t.Errorf("%d executions were stored", len(all))
	}
	x := s.wait(s.submit(echo("a;$(touch pwned)`touch pwned`|&")).ID) // harmless: no shell sees it
	if log := s.logLines(x.ID); x.Status != engine.Succeeded || !strings.Contains(strings.Join(log, "\n"), "[stdout] a;$(touch pwned)`touch pwned`|&") {
		t.Errorf("it ended as %s with the log %q", x.Status, log)
	}
	if _, err := os.Stat(filepath.Join(s.work(), "pwned")); err == nil {
		t.Error("a shell has seen an argument")
	}
}

// TestSecondServe starts a service on a data directory that is in use.
func TestSecondServe(t *testing.T) {
	t.Parallel()
	s := newService(t, endConfig, nil)
	s.start()
	second := exec.Command(s.bin, "serve")
	second.Env, second.Dir = append(s.env, "THREADMILL_LISTEN="+freeAddress(t)), s.home
	out, err := second.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(out), s.data()) {
		t.Errorf("a second serve ended with %v and said:\n%s", err, out)
	}
	fi, err := os.Stat(s.data())
	must(t, err)
	if fi.Mode().Perm() != 0o700 {
		t.Errorf("the data directory has mode %v", fi.Mode())
	}
	if resp, err := http.Get("http://" + s.address + "/healthz"); err != nil || resp.Body.Close() != nil {
		t.Errorf("the first one does not answer: %v", err)
	}
	s.stop()
}
