package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/threadmill/threadmill/bot/web/client"
)

func (a *app) logsCommand() *cobra.Command {
	var (
		follow bool
		lines  int
	)
	cmd := &cobra.Command{
		Use:   "logs EXECUTION",
		Short: "Print an execution's log, or follow it to its end",
		Long: `Print an execution's log as it is kept: each line begins with [stdout], [stderr] or
[system]. With --follow it is printed as it grows, until the execution ends.`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeFirst(executions()),
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "follow the log until the execution ends")
	cmd.Flags().IntVarP(&lines, "lines", "n", 0, "only the last so `many` lines (default all)")
	cmd.RunE = a.onExecution(func(ctx context.Context, c *client.Client, ref string) error {
		if lines < 0 {
			return usagef("--lines is %d: give the number of lines", lines)
		}
		if follow {
			return a.followLog(ctx, c, ref, lines)
		}
		if lines > 0 {
			return c.Tail(ctx, ref, lines, a.out)
		}
		return c.Logs(ctx, ref, a.out)
	})
	return cmd
}

func (a *app) followLog(ctx context.Context, c *client.Client, ref string, lines int) error {
	e, err := c.Get(ctx, ref)
	if err != nil {
		return err
	}
	w := &watcher{app: a, number: e.Number, once: e.Once, raw: true}
	if lines > 0 {
		return c.FollowTail(ctx, ref, lines, w.handlers())
	}
	return c.Follow(ctx, ref, w.handlers())
}
