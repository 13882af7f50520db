package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/threadmill/threadmill/bot/web/client"
	"github.com/threadmill/threadmill/engine"
)

func (a *app) cancelCommand() *cobra.Command {
	var force, wait bool
	cmd := &cobra.Command{
		Use:               "cancel EXECUTION",
		Short:             "End an execution and every process of it",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeFirst(executions(engine.Queued, engine.Running, engine.Cancelling)),
	}
	cmd.Flags().BoolVar(&force, "force", false, "leave out the polite steps")
	cmd.Flags().BoolVar(&wait, "wait", false, "return when nothing of it is left")
	cmd.RunE = a.onExecution(func(ctx context.Context, c *client.Client, ref string) error {
		e, err := c.Cancel(ctx, ref, force)
		if err != nil {
			return err
		}
		if wait {
			return a.awaitCancel(ctx, c, e)
		}
		return a.announce(e)
	})
	return a.jsonFlag(cmd)
}

// awaitCancel waits for the end; that it is `cancelled` is what was asked for.
func (a *app) awaitCancel(ctx context.Context, c *client.Client, e engine.Execution) error {
	w := &watcher{app: a, number: e.Number, quiet: true}
	if err := c.Follow(ctx, e.ID, w.handlers()); err != nil {
		return err
	}
	detail, err := c.Get(ctx, e.ID)
	if err != nil {
		return err
	}
	return a.announce(detail.Execution)
}

func (a *app) interruptCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "interrupt EXECUTION",
		Short:             "End an agent's turn; the agent lives on",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeFirst(executions(engine.Running)),
	}
	cmd.RunE = a.onExecution(func(ctx context.Context, c *client.Client, ref string) error {
		sent, err := c.Interrupt(ctx, ref)
		if err != nil {
			return err
		}
		if a.json {
			return a.printJSON(sent)
		}
		word := "interrupted"
		if sent.State == engine.Pending {
			word = "stored, the runner will get it"
		}
		_, err = fmt.Fprintf(a.out, "%s: %s\n", named(ref), word)
		return err
	})
	return a.jsonFlag(cmd)
}

func (a *app) retryCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "retry EXECUTION",
		Short:             "Start an ended execution anew, as a child of the first",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeFirst(executions(engine.Failed, engine.TimedOut, engine.Cancelled, engine.Succeeded)),
	}
	cmd.RunE = a.onExecution(func(ctx context.Context, c *client.Client, ref string) error {
		e, err := c.Retry(ctx, ref)
		if err != nil {
			return err
		}
		return a.announce(e)
	})
	return a.jsonFlag(cmd)
}

// onExecution is the body of a command whose first argument is an execution.
func (a *app) onExecution(fn func(ctx context.Context, c *client.Client, ref string) error) func(*cobra.Command, []string) error {
	return a.calling(func(ctx context.Context, c *client.Client, args []string) error {
		ref, err := reference(args[0])
		if err != nil {
			return err
		}
		return fn(ctx, c, ref)
	})
}
