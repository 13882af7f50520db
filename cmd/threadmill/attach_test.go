package main

import (
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/agent"
)

// TestAttach looks at a running execution's terminal and leaves it without harm, also
// from inside another tmux.
func TestAttach(t *testing.T) {
	t.Parallel()
	s := newService(t, "", nil)
	s.start()
	x := s.submit(map[string]any{"capability": "demo", "text": "say look at this; ask Stay? | yes | no"})
	s.until(x.ID, func(x engine.Execution) bool { return x.Activity == agent.Asking && x.TmuxSession != "" })

	cmd := exec.Command(s.bin, "attach", "1")
	cmd.Env = append(s.env, "TERM=xterm-256color", "TMUX=/elsewhere,1,0")
	cmd.Dir = s.home
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 30, Cols: 100})
	must(t, err)
	screen, drained := &syncBuffer{}, make(chan struct{})
	go func() {
		defer close(drained)
		_, _ = io.Copy(screen, terminal) // ends with an error, since the terminal goes away
	}()
	s.eventually("the terminal shows what the agent said", func() bool {
		return strings.Contains(screen.String(), "look at this")
	})
	_, err = terminal.WriteString("\x1c") // Ctrl-\ leaves
	must(t, err)
	if err := cmd.Wait(); err != nil {
		t.Errorf("attach ended with %v; the terminal showed:\n%q", err, screen)
	}
	must(t, terminal.Close())
	<-drained
	if got := s.get(x.ID); got.Status != engine.Running {
		t.Errorf("the execution is %s after it was looked at", got.Status)
	}
}

// TestAttachNeedsTerminals refuses what would only confuse tmux.
func TestAttachNeedsTerminals(t *testing.T) {
	t.Parallel()
	s := newService(t, "", nil)
	s.start()
	x := s.submit(map[string]any{"capability": "demo", "text": "ask Stay? | yes | no"})
	s.until(x.ID, func(x engine.Execution) bool { return x.TmuxSession != "" && x.Activity == agent.Asking })
	cmd := exec.Command(s.bin, "attach", "1")
	cmd.Env, cmd.Dir = s.env, s.home
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "attach needs a terminal") {
		t.Errorf("attach without a terminal ended with %v and said %q", err, out)
	}
}
