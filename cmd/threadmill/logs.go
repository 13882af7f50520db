package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/threadmill/threadmill/bot/web/client"
)

func (a *app) logsCommand() *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use:   "logs EXECUTION",
		Short: "Print an execution's log, or follow it to its end",
		Long: `Print an execution's log as it is kept: each line begins with [stdout], [stderr] or
[system]. With --follow the log is printed from its beginning and followed until the
execution ends.`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeFirst(executions()),
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "follow the log until the execution ends")
	cmd.RunE = a.calling(func(ctx context.Context, c *client.Client, args []string) error {
		ref, err := reference(args[0])
		if err != nil {
			return err
		}
		if !follow {
			return c.Logs(ctx, ref, a.out)
		}
		e, err := c.Get(ctx, ref)
		if err != nil {
			return err
		}
		w := &watcher{app: a, number: e.Number, raw: true}
		return c.Follow(ctx, ref, w.handlers())
	})
	return cmd
}
