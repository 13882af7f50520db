package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/agent"
)

// surviveConfig lets many executions run at a time.
const surviveConfig = `
engine:
  max_concurrent: 500
  allowed_working_dirs: [$WORK]
agents:
  demo: {adapter: demo, working_dir: $WORK, on_busy: steer, max_concurrent: 500, idle_timeout: 20m}
  shell: {adapter: command, working_dir: $WORK, max_concurrent: 500}
`

// TestServeKilled kills the service with SIGKILL at random moments while executions
// print numbered lines and receive numbered messages. The full count is in the soak.
func TestServeKilled(t *testing.T) {
	t.Parallel()
	surviveKills(t, 8, 20, 400)
}

func surviveKills(t *testing.T, rounds, executions, lines int) {
	t.Helper()
	s := newService(t, surviveConfig, nil)
	s.start()
	var runs []engine.Execution
	for range executions {
		x := s.submit(map[string]any{"capability": "demo", "text": fmt.Sprintf("lines %d 20ms", lines)})
		runs = append(runs, s.running(x.ID))
	}
	var over atomic.Bool
	sent := make([]int, executions)
	var talk sync.WaitGroup
	for i, x := range runs {
		talk.Go(func() {
			for failed := false; failed || !over.Load(); {
				body := map[string]any{"id": fmt.Sprintf("m-%d-%d", i, sent[i]+1), "text": fmt.Sprintf("message %d of %d", sent[i]+1, i)}
				failed = s.try("POST", "/api/executions/"+x.ID+"/message", body, nil) != nil
				if !failed {
					sent[i]++ // otherwise the service was away: the same message is said again
				}
				time.Sleep(time.Duration(20+rand.IntN(200)) * time.Millisecond)
			}
		})
	}
	for range rounds {
		time.Sleep(time.Duration(rand.IntN(700)) * time.Millisecond)
		s.kill()
		time.Sleep(time.Duration(rand.IntN(200)) * time.Millisecond)
		s.start()
	}
	over.Store(true)
	talk.Wait()
	for i, x := range runs {
		checkSurvivor(t, s, x, lines, sent[i])
	}
}

// checkSurvivor checks that nothing of an execution was lost or doubled.
func checkSurvivor(t *testing.T, s *service, started engine.Execution, lines, sent int) {
	t.Helper()
	x := s.until(started.ID, func(x engine.Execution) bool { return x.Activity == agent.Idle })
	if x.Pid != started.Pid {
		t.Errorf("#%d: the agent's pid was %d and is %d", x.Number, started.Pid, x.Pid)
	}
	var want, got []string
	for n := range lines {
		want = append(want, fmt.Sprintf("line %d", n+1))
	}
	for _, line := range s.logLines(x.ID) {
		if text, ok := strings.CutPrefix(line, "[stdout] "); ok && strings.HasPrefix(text, "line ") {
			got = append(got, text)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("#%d: lines in output.log (-want +got):\n%s", x.Number, diff)
	}
	answers := map[string]int{}
	var handed []string
	for _, en := range s.entries(x.ID) {
		if en.Kind == agent.KindUser && en.ID != x.ID {
			handed = append(handed, en.ID)
		}
		if en.Kind == agent.KindAssistant && strings.Contains(en.Content, "message ") {
			answers[en.Content]++
		}
	}
	if sent == 0 {
		t.Errorf("#%d: no message was sent", x.Number)
	}
	if len(handed) != sent || len(slices.Compact(slices.Sorted(slices.Values(handed)))) != sent {
		t.Errorf("#%d: %d messages were sent; handed to the agent: %v", x.Number, sent, handed)
	}
	for n := range sent {
		text := fmt.Sprintf("message %d of ", n+1)
		times := 0
		for answer, k := range answers {
			if strings.Contains(answer, text) {
				times += k
			}
		}
		if times != 1 {
			t.Errorf("#%d: the agent answered %q %d times", x.Number, text, times)
		}
	}
}

// TestTmuxKilled kills the tmux server under runs: they finish, their logs are whole,
// and a new pane shows them.
func TestTmuxKilled(t *testing.T) {
	t.Parallel()
	s := newService(t, surviveConfig, nil)
	s.start()
	x := s.submit(map[string]any{"capability": "demo", "once": true, "text": "lines 300 20ms; say the end"})
	x = s.running(x.ID)
	if x.TmuxSession == "" {
		t.Fatal("the execution has no tmux session; is tmux installed?")
	}
	sock := s.tmuxSocket()
	out, err := exec.Command("tmux", "-S", sock, "display-message", "-p", "#{pid}").Output()
	must(t, err)
	var server int
	_, err = fmt.Sscan(string(out), &server)
	must(t, err)
	must(t, syscall.Kill(server, syscall.SIGKILL))
	s.eventually("a new pane shows the run", func() bool {
		out, err := exec.Command("tmux", "-S", sock, "capture-pane", "-p", "-t", x.TmuxSession).Output()
		return err == nil && strings.Contains(string(out), "line ")
	})
	x = s.wait(x.ID)
	if x.Status != engine.Succeeded {
		t.Errorf("the run ended as %s: %s", x.Status, x.Error)
	}
	log := strings.Join(s.logLines(x.ID), "\n")
	for n := 1; n <= 300; n++ {
		if strings.Count(log+"\n", fmt.Sprintf("] line %d\n", n)) != 1 {
			t.Errorf("line %d does not stand once in the log", n)
		}
	}
}

// TestRunnerKilled kills the runner: its agent dies with it, runaways are ended, and
// it is said so.
func TestRunnerKilled(t *testing.T) {
	t.Parallel()
	s := newService(t, surviveConfig, nil)
	s.start()
	x := s.submit(map[string]any{"capability": "demo", "text": "fork; lines 10000 20ms"})
	x = s.running(x.ID)
	s.eventually("a child has left the group", func() bool { return len(left(t, x.ID)) >= 2 })
	must(t, syscall.Kill(s.runner(x.ID), syscall.SIGKILL))
	x = s.wait(x.ID)
	if x.Status != engine.Failed || x.Reason != agent.ReasonRunnerLost {
		t.Errorf("the run ended as %s (%s)", x.Status, x.Reason)
	}
	if pids := left(t, x.ID); len(pids) > 0 {
		t.Errorf("processes are left: %v", pids)
	}
}

// TestRunnerKilledWhileAway is the same while the service is away.
func TestRunnerKilledWhileAway(t *testing.T) {
	t.Parallel()
	s := newService(t, surviveConfig, nil)
	s.start()
	x := s.submit(map[string]any{"capability": "demo", "text": "fork; lines 10000 20ms"})
	x = s.running(x.ID)
	s.eventually("a child has left the group", func() bool { return len(left(t, x.ID)) >= 2 })
	s.kill()
	must(t, syscall.Kill(s.runner(x.ID), syscall.SIGKILL))
	s.start()
	x = s.wait(x.ID)
	if x.Status != engine.Failed || x.Reason != agent.ReasonRunnerLost {
		t.Errorf("the run ended as %s (%s)", x.Status, x.Reason)
	}
	if pids := left(t, x.ID); len(pids) > 0 {
		t.Errorf("processes are left: %v", pids)
	}
}

// TestEndedWhileAway lets a run end while the service is away.
func TestEndedWhileAway(t *testing.T) {
	t.Parallel()
	s := newService(t, surviveConfig, nil)
	s.start()
	x := s.submit(map[string]any{"capability": "demo", "once": true, "text": "lines 20 20ms; usage 0.5 1000; say done"})
	s.running(x.ID)
	s.kill()
	s.eventually("the run has ended by itself", func() bool {
		_, err := os.Stat(filepath.Join(s.dir(x.ID), "result.json"))
		return err == nil
	})
	s.start()
	x = s.wait(x.ID)
	if x.Status != engine.Succeeded || x.Usage.CostUSD != 0.5 {
		t.Errorf("the run ended as %s, having spent %v", x.Status, x.Usage)
	}
}
