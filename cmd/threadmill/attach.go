package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/threadmill/threadmill/bot/web/client"
	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/host/tmux"
)

func (a *app) attachCommand() *cobra.Command {
	var write bool
	cmd := &cobra.Command{
		Use:   "attach EXECUTION",
		Short: `Show a running execution's terminal (Ctrl-\ leaves it)`,
		Long: `Show a running execution's terminal on this one. It only shows; with --rw what is typed
is a message to the agent, and Ctrl-C interrupts it. Ctrl-\ leaves the terminal; the
execution goes on.`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeFirst(executions(engine.Running, engine.Cancelling)),
	}
	cmd.Flags().BoolVar(&write, "rw", false, "take input as well")
	cmd.RunE = a.onExecution(func(ctx context.Context, c *client.Client, ref string) error {
		return a.attach(ctx, c, ref, write)
	})
	return cmd
}

// attach runs the tmux client of an execution's session on this terminal.
func (a *app) attach(ctx context.Context, c *client.Client, ref string, write bool) error {
	e, err := c.Get(ctx, ref)
	if err != nil {
		return err
	}
	switch {
	case !e.Status.Live():
		return fmt.Errorf("execution #%d is %s: only a running one has a terminal", e.Number, e.Status)
	case e.TmuxSession == "":
		return fmt.Errorf("execution #%d runs without a terminal: `threadmill logs -f %d` follows it", e.Number, e.Number)
	case !isTerminal(a.in) || !isTerminal(a.out):
		return errors.New("attach needs a terminal to show the execution's on")
	}
	v, err := c.Version(ctx)
	if err != nil {
		return err
	}
	return a.runTmux(ctx, v.RunDir, e.TmuxSession, write)
}

// detachGrace is how long tmux gets to put the terminal right after an interrupt.
const detachGrace = 2 * time.Second

func (a *app) runTmux(ctx context.Context, runDir, session string, write bool) error {
	if _, err := os.Stat(runDir); runDir == "" || err != nil {
		return errors.New("the service runs on another machine or as another user: attach works only beside it")
	}
	path, err := a.lookTmux()
	if err != nil {
		return err
	}
	argv := tmux.New(tmux.Options{Path: path, Dir: runDir}).AttachArgv(session, !write)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = a.in, a.out, a.err
	cmd.Env = a.environWithout("TMUX", "TMUX_PANE") // tmux refuses to run inside itself; ours is another server
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = detachGrace
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("show the terminal of session %s: %w", session, err)
	}
	return nil
}
