package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/threadmill/threadmill/bot/web/client"
)

func (a *app) linkCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "link",
		Short: "Make a link that signs a browser in",
		Long: `Make a link to the web page that signs one browser in. It works once and expires after
15 minutes; the browser stays signed in until it was not used for 30 days.`,
		Args: cobra.NoArgs,
	}
	cmd.RunE = a.calling(func(ctx context.Context, c *client.Client, _ []string) error {
		l, err := c.Link(ctx)
		if err != nil {
			return err
		}
		if a.json {
			return a.printJSON(l)
		}
		_, err = fmt.Fprintln(a.out, l.URL)
		return err
	})
	return a.jsonFlag(cmd)
}
