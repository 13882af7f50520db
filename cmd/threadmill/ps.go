package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/threadmill/threadmill/bot/web/client"
	"github.com/threadmill/threadmill/engine"
)

// maxListed is how many executions the API lists at once.
const maxListed = 200

func (a *app) psCommand() *cobra.Command {
	var (
		f        engine.Filter
		statuses []string
		all      bool
	)
	cmd := &cobra.Command{
		Use:   "ps",
		Short: "List executions that have not ended",
		Args:  cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.BoolVarP(&all, "all", "a", false, "also those that have ended")
	flags.StringSliceVar(&statuses, "status", nil, "only these `statuses`: "+strings.Join(statusNames(), ", "))
	flags.StringVar(&f.AgentID, "agent", "", "only those of this agent `name`")
	flags.StringVar(&f.TaskID, "task", "", "only those of this task `id`")
	flags.IntVarP(&f.PageSize, "number", "n", 20, fmt.Sprintf("at most so `many` (1 to %d)", maxListed))
	flags.IntVar(&f.Page, "page", 1, "`page` to show")
	cmd.RunE = a.calling(func(ctx context.Context, c *client.Client, _ []string) error {
		var err error
		if f.Statuses, err = selectStatuses(statuses, all); err != nil {
			return err
		}
		if f.PageSize < 1 || f.PageSize > maxListed || f.Page < 1 {
			return usagef("--number is %d and --page %d: at most %d are shown at once, and pages count from 1", f.PageSize, f.Page, maxListed)
		}
		list, total, err := c.List(ctx, f)
		if err != nil {
			return err
		}
		return a.listExecutions(list, total, all)
	})
	completeFlag(cmd, "status", statusNames())
	a.completeFlagBy(cmd, "agent", agentNames)
	return a.jsonFlag(cmd)
}

func statusNames() []string {
	var names []string
	for _, s := range engine.Statuses() {
		names = append(names, string(s))
	}
	return names
}

// selectStatuses is what the flags of `ps` ask for; nil selects everything.
func selectStatuses(names []string, all bool) ([]engine.Status, error) {
	if all && len(names) > 0 {
		return nil, usagef("--all and --status contradict each other: use one of them")
	}
	if all {
		return nil, nil
	}
	var list []engine.Status
	for _, name := range names {
		s := engine.Status(name)
		if !s.Valid() {
			return nil, usagef("%q is no status: use %s", clean(name), strings.Join(statusNames(), ", "))
		}
		list = append(list, s)
	}
	if len(list) > 0 {
		return list, nil
	}
	for _, s := range engine.Statuses() {
		if !s.Ended() {
			list = append(list, s)
		}
	}
	return list, nil
}

func (a *app) listExecutions(list []engine.Execution, total int, all bool) error {
	if a.json {
		return a.printJSON(list)
	}
	if total == 0 && !all {
		_, err := fmt.Fprintln(a.err, "Nothing of that kind is there; `threadmill ps --all` lists also what has ended.")
		return err
	}
	if total == 0 {
		_, err := fmt.Fprintln(a.err, "There are no executions yet: start one with `threadmill run CAPABILITY`, see `threadmill capabilities`.")
		return err
	}
	now := time.Now()
	rows := [][]cell{head("#", "STATUS", "CAPABILITY", "AGENT", "CREATED", "TOOK", "SPENT", "BY", "WHAT")}
	for _, e := range list {
		r := plainRow(fmt.Sprintf("#%d", e.Number), "", clean(e.CapabilityID), clean(e.AgentID),
			ago(e.CreatedAt, now), took(e, now), "", clean(e.RequestedBy), shorten(what(e), 50))
		r[1], r[6] = status(e), spent(e)
		rows = append(rows, r)
	}
	if err := a.table(rows); err != nil {
		return err
	}
	if total > len(list) {
		fmt.Fprintf(a.err, "%d of %d; --page and -n show more\n", len(list), total)
	}
	return nil
}

// what is an execution's request in a few words.
func what(e engine.Execution) string {
	if e.Mode == engine.ModePrompt {
		return e.Prompt
	}
	return pairs(e.Args)
}
