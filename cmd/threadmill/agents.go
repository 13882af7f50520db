package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/threadmill/threadmill/bot/web/client"
	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/agent"
)

func (a *app) agentsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "agents",
		Short: "List the configured agents and whether they can run",
		Args:  cobra.NoArgs,
	}
	cmd.RunE = a.calling(func(ctx context.Context, c *client.Client, _ []string) error {
		list, err := c.Agents(ctx)
		if err != nil {
			return err
		}
		if a.json {
			return a.printJSON(list)
		}
		return a.listAgents(list)
	})
	return a.jsonFlag(cmd)
}

func (a *app) listAgents(list []engine.AgentView) error {
	rows := [][]cell{head("AGENT", "ADAPTER", "STATE", "RUNNING", "QUEUED", "CAN", "DIRECTORY")}
	for _, v := range list {
		running := fmt.Sprint(v.Running)
		if v.MaxConcurrent > 0 {
			running += fmt.Sprintf("/%d", v.MaxConcurrent)
		}
		r := plainRow(clean(v.ID), clean(v.Adapter), "", running, fmt.Sprint(v.Queued), abilities(v.Traits), clean(v.WorkingDir))
		r[2] = available(v.Availability)
		rows = append(rows, r)
	}
	return a.table(rows)
}

func available(v agent.Availability) cell {
	if v.OK {
		return cell{text: strings.TrimSpace("ready " + clean(v.Version)), colour: green}
	}
	return cell{text: shorten(v.Problem, 60), colour: red}
}

// abilities names what an agent can do beyond running to its end.
func abilities(t agent.Traits) string {
	var list []string
	for _, trait := range []struct {
		has  bool
		name string
	}{
		{t.Messages, "messages"},
		{t.Steering, "steering"},
		{t.Interrupt, "interrupt"},
		{t.Resume, "resume"},
		{t.Fork, "fork"},
		{t.Approvals, "approvals"},
		{t.Questions, "questions"},
		{t.Images, "images"},
		{t.MCP, "mcp"},
	} {
		if trait.has {
			list = append(list, trait.name)
		}
	}
	if len(list) == 0 {
		return "-"
	}
	return strings.Join(list, ",")
}
