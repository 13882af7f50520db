package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/threadmill/threadmill/bot/web/client"
	"github.com/threadmill/threadmill/engine"
)

func (a *app) showCommand() *cobra.Command {
	return a.jsonFlag(&cobra.Command{
		Use:               "show EXECUTION",
		Short:             "Show everything about an execution",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeFirst(executions()),
		RunE: a.calling(func(ctx context.Context, c *client.Client, args []string) error {
			ref, err := reference(args[0])
			if err != nil {
				return err
			}
			e, err := c.Get(ctx, ref)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(e)
			}
			return a.show(e.Execution)
		}),
	})
}

func (a *app) show(e engine.Execution) error {
	now := time.Now()
	s := status(e)
	return a.fields(
		[2]string{"execution", fmt.Sprintf("#%d  %s", e.Number, e.ID)},
		[2]string{"status", a.paint(a.out, s.colour, s.text)},
		[2]string{"error", clean(e.Error)},
		[2]string{"resets", moment(e.ResetsAt, now)},
		[2]string{"not before", moment(e.NotBefore, now)},
		[2]string{"resumed", resumed(e)},
		[2]string{"capability", clean(e.CapabilityID)},
		[2]string{"agent", clean(e.AgentID)},
		[2]string{"arguments", pairs(e.Args)},
		[2]string{"prompt", shorten(e.Prompt, 500)},
		[2]string{"directory", clean(e.Dir)},
		[2]string{"task", e.TaskID},
		[2]string{"parent", e.ParentID},
		[2]string{"session", clean(e.SessionRef)},
		[2]string{"requested", clean(e.RequestedBy) + ", " + ago(e.CreatedAt, now)},
		[2]string{"started", moment(e.StartedAt, now)},
		[2]string{"ended", moment(e.EndedAt, now)},
		[2]string{"took", took(e, now)},
		[2]string{"exit code", optional(e.ExitCode)},
		[2]string{"signal", e.Signal},
		[2]string{"processes", processes(e)},
		[2]string{"usage", usage(e)},
		[2]string{"budget", allowance(e)},
		[2]string{"warning", clean(e.Budget.Warning)},
		[2]string{"log", logSize(e)},
		[2]string{"tmux", clean(e.TmuxSession)},
	)
}

func moment(at *time.Time, now time.Time) string {
	if at == nil {
		return ""
	}
	stamp := at.Local().Format("2006-01-02 15:04:05")
	if at.After(now) {
		return stamp + " (in " + roughly(at.Sub(now)) + ")"
	}
	return stamp + " (" + ago(*at, now) + ")"
}

func optional(n *int) string {
	if n == nil {
		return ""
	}
	return fmt.Sprint(*n)
}

func processes(e engine.Execution) string {
	var parts []string
	if e.Pid != 0 && e.Status.Live() {
		parts = append(parts, fmt.Sprintf("pid %d", e.Pid))
	}
	if e.Ended > 0 {
		parts = append(parts, fmt.Sprintf("%d had to be ended", e.Ended))
	}
	if e.Left > 0 {
		parts = append(parts, fmt.Sprintf("%d could not be ended", e.Left))
	}
	return strings.Join(parts, ", ")
}

func usage(e engine.Execution) string {
	if e.Usage.InputTokens == 0 && e.Usage.OutputTokens == 0 && e.Usage.CostUSD == 0 {
		return ""
	}
	return fmt.Sprintf("$%.4f, %d tokens in, %d out", e.Usage.CostUSD, e.Usage.InputTokens, e.Usage.OutputTokens)
}

// resumed tells that nobody asked for this run.
func resumed(e engine.Execution) string {
	switch e.Resumes {
	case 0:
		return ""
	case 1:
		return "by itself"
	}
	return fmt.Sprintf("by itself, for the %d. time in a row", e.Resumes)
}

func logSize(e engine.Execution) string {
	if e.LogsDeleted {
		return "deleted by retention"
	}
	return fmt.Sprintf("%d lines, %s", e.LogLineCount, size(e.LogByteSize))
}

// pairs writes arguments as they are typed.
func pairs(args map[string]any) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(args)) {
		parts = append(parts, key+"="+clean(fmt.Sprint(args[key])))
	}
	return strings.Join(parts, " ")
}
