package main

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/threadmill/threadmill/bot/web/client"
	"github.com/threadmill/threadmill/engine"
)

func (a *app) capabilitiesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "capabilities",
		Short: "List what can be run",
		Args:  cobra.NoArgs,
	}
	cmd.RunE = a.calling(func(ctx context.Context, c *client.Client, _ []string) error {
		list, err := c.Capabilities(ctx)
		if err != nil {
			return err
		}
		if a.json {
			return a.printJSON(list)
		}
		rows := [][]cell{head("CAPABILITY", "AGENT", "MODE", "ARGUMENTS", "WHAT IT DOES")}
		for _, k := range list {
			rows = append(rows, plainRow(clean(k.ID), clean(k.AgentID), string(k.Mode), parameters(k), shorten(k.Label, 60)))
		}
		return a.table(rows)
	})
	return a.jsonFlag(cmd)
}

// parameters names a capability's arguments, optional ones in brackets.
func parameters(k engine.Capability) string {
	properties, _ := k.ArgsSchema["properties"].(map[string]any)
	required, _ := k.ArgsSchema["required"].([]any)
	var list []string
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if slices.Contains(required, any(name)) {
			list = append(list, clean(name)+"=")
		} else {
			list = append(list, "["+clean(name)+"=]")
		}
	}
	if len(list) == 0 {
		return "-"
	}
	return strings.Join(list, " ")
}
