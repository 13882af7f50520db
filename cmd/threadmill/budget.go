package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/threadmill/threadmill/bot/web/api"
	"github.com/threadmill/threadmill/bot/web/client"
	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/rundir"
)

func (a *app) budgetCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "budget",
		Short: "Show what may be spent today, and what is",
		Args:  cobra.NoArgs,
		RunE: a.calling(func(ctx context.Context, c *client.Client, _ []string) error {
			report, err := c.Budget(ctx)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(report)
			}
			return a.budgets(report)
		}),
	}
	extend := a.extendCommand()
	extend.Flags().StringVar(&a.server, "server", "", "`address` of the service (default THREADMILL_SERVER, then the local one)")
	cmd.AddCommand(extend)
	return a.jsonFlag(cmd)
}

func (a *app) budgets(r engine.BudgetReport) error {
	lines := append(r.Agents, r.Users...)
	fmt.Fprintf(a.out, "%s, %s\n", r.Day, clean(r.Zone))
	if len(lines) == 0 {
		_, err := fmt.Fprintln(a.err, "Nothing is spent today, and no agent has a budget for a day; see `budget` in docs/CONFIGURATION.md.")
		return err
	}
	if err := a.budgetLines(lines); err != nil || len(r.Runs) == 0 {
		return err
	}
	rows := [][]cell{head("RUN", "SPENT", "TOKENS", "AGENT", "BY")}
	for _, x := range r.Runs {
		run := fmt.Sprintf("#%d", x.Number)
		if x.Number == 0 {
			run = "forgotten"
		}
		rows = append(rows, plainRow(run, engine.Dollars(x.SpentUSD), strconv.FormatInt(x.Tokens, 10), clean(x.AgentID), clean(x.RequestedBy)))
	}
	fmt.Fprintln(a.out)
	return a.table(rows)
}

func (a *app) budgetLines(lines []engine.BudgetLine) error {
	rows := [][]cell{head("BUDGET", "SPENT", "OF", "ADDED", "LEFT", "TOKENS")}
	for _, l := range lines {
		row := plainRow(budgetName(l), engine.Dollars(l.SpentUSD), "no limit", "", "", strconv.FormatInt(l.Tokens, 10))
		if l.CapUSD > 0 {
			row[2].text, row[3].text, row[4] = engine.Dollars(l.CapUSD), added(l.ExtendedUSD), leftOf(l)
		}
		rows = append(rows, row)
	}
	return a.table(rows)
}

func budgetName(l engine.BudgetLine) string {
	name := string(l.Scope) + " " + clean(l.ID)
	if l.AgentID != "" {
		name += " with " + clean(l.AgentID)
	}
	return name
}

func added(usd float64) string {
	if usd == 0 {
		return ""
	}
	return engine.Dollars(usd)
}

func leftOf(l engine.BudgetLine) cell {
	if l.LeftUSD == nil {
		return cell{}
	}
	left := cell{text: engine.Dollars(*l.LeftUSD)}
	switch {
	case *l.LeftUSD == 0:
		left.colour = red
	case l.Warned:
		left.colour = yellow
	}
	return left
}

func (a *app) extendCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "extend run|user|agent WHICH USD",
		Short: "Add to a run's budget, or to a user's or an agent's of today",
		Long: `Add to a run's budget, or to a user's or an agent's of today. WHICH is the number of
the run, the user as in "requested", or the name of the agent.`,
		Example: "  threadmill budget extend run 42 2.50\n  threadmill budget extend user web 10",
		Args:    cobra.ExactArgs(3),
		ValidArgs: []cobra.Completion{
			string(engine.BudgetRun), string(engine.BudgetUser), string(engine.BudgetAgent),
		},
	}
	cmd.RunE = a.calling(func(ctx context.Context, c *client.Client, args []string) error {
		q, err := extension(args)
		if err != nil {
			return err
		}
		lines, err := c.ExtendBudget(ctx, q)
		if err != nil {
			return err
		}
		if a.json {
			return a.printJSON(lines)
		}
		if q.Scope == engine.BudgetRun && len(lines) > 0 {
			lines[0].ID = named(q.ID) // as people call it
		}
		return a.budgetLines(lines)
	})
	return a.jsonFlag(cmd)
}

// extension reads the arguments of `budget extend`.
func extension(args []string) (api.ExtendRequest, error) {
	q := api.ExtendRequest{Scope: engine.BudgetScope(args[0]), ID: args[1], IdempotencyKey: rundir.NewID()}
	switch q.Scope {
	case engine.BudgetRun:
		ref, err := reference(args[1])
		if err != nil {
			return q, err
		}
		q.ID = ref
	case engine.BudgetUser, engine.BudgetAgent:
	default:
		return q, usagef("%q has no budget: say run, user or agent", clean(args[0]))
	}
	usd, err := strconv.ParseFloat(strings.TrimPrefix(args[2], "$"), 64)
	if err != nil {
		return q, usagef("%q is no amount of dollars, such as 2.50", clean(args[2]))
	}
	q.USD = usd
	return q, nil
}

// spent shows what an execution has cost, and of how much.
func spent(e engine.Execution) cell {
	if e.Usage.CostUSD == 0 && e.Budget.CapUSD == 0 {
		return cell{}
	}
	c := cell{text: engine.Dollars(e.Usage.CostUSD)}
	if e.Budget.CapUSD > 0 {
		c.text += " of " + engine.Dollars(e.Budget.CapUSD)
	}
	if e.Budget.Warned {
		c.colour = yellow
	}
	return c
}

// allowance tells about an execution's budget.
func allowance(e engine.Execution) string {
	var parts []string
	if e.Budget.CapUSD > 0 {
		parts = append(parts, spent(e).text)
	}
	if e.Budget.ExtendedUSD > 0 {
		parts = append(parts, engine.Dollars(e.Budget.ExtendedUSD)+" of it added")
	}
	if e.Budget.CapTokens > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d tokens", e.Usage.InputTokens+e.Usage.OutputTokens, e.Budget.CapTokens))
	}
	return strings.Join(parts, ", ")
}
