package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/threadmill/threadmill/bot/web/api"
	"github.com/threadmill/threadmill/bot/web/client"
	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/rundir"
)

func (a *app) sendCommand() *cobra.Command {
	var onBusy string
	cmd := &cobra.Command{
		Use:   "send EXECUTION TEXT…",
		Short: "Send a message to a running agent",
		Long: `Send a message to a running agent. The text - is read from standard input. While the
agent is busy the message is queued, steered into the turn or refused, as --on-busy
or else the agent's configuration says.`,
		Args:              cobra.MinimumNArgs(2),
		ValidArgsFunction: a.completeFirst(executions(engine.Queued, engine.Running)),
	}
	cmd.Flags().StringVar(&onBusy, "on-busy", "", "`policy` when the agent is busy: queue, steer or reject")
	completeFlag(cmd, "on-busy", []string{string(engine.BusyQueue), string(engine.BusySteer), string(engine.BusyReject)})
	cmd.RunE = a.calling(func(ctx context.Context, c *client.Client, args []string) error {
		ref, err := reference(args[0])
		if err != nil {
			return err
		}
		text, err := a.text(args[1:])
		if err != nil {
			return err
		}
		sent, err := c.Send(ctx, ref, api.MessageRequest{ID: rundir.NewID(), Text: text, OnBusy: engine.OnBusy(onBusy)})
		if err != nil {
			return err
		}
		return a.tellSent(ref, sent)
	})
	return a.jsonFlag(cmd)
}

func (a *app) tellSent(ref string, sent api.Sent) error {
	if a.json {
		return a.printJSON(sent)
	}
	_, err := fmt.Fprintf(a.out, "%s: %s\n", named(ref), taken(sent))
	return err
}

// taken says what became of a message.
func taken(sent api.Sent) string {
	switch sent.How {
	case rundir.HowStarted:
		return "sent, the agent works on it"
	case rundir.HowQueued:
		return "queued until the agent's turn ends"
	case rundir.HowSteered:
		return "steered into the running turn"
	case rundir.HowDone:
		return "sent"
	}
	return "stored, the runner will get it"
}

// named writes a reference as people do.
func named(ref string) string {
	if len(ref) < len("00000000-0000") {
		return "#" + ref
	}
	return ref
}
