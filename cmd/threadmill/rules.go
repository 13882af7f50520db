package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/threadmill/threadmill/bot/web/api"
	"github.com/threadmill/threadmill/bot/web/client"
	"github.com/threadmill/threadmill/engine"
)

// rememberHelp explains the flags of [memory].
const rememberHelp = `
With --remember the answer becomes a rule, which answers by itself from then on: for the
run, the agent's session, the project (the working directory) or the user who started
the run. It is about this tool and exactly this argument (the command, the file, the
address), unless --tool and --match give patterns: * stands for any text, ? for one
character. In a rule that allows a command they stand for no shell characters. A rule
that denies stands above every rule that allows. See ` + "`threadmill rules`."

// memory is what the flags of `approve` and `deny` say about remembering.
type memory struct {
	scope, persist, tool, match string
}

func (m *memory) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&m.scope, "remember", "", "decide the same by itself from now on, within this `scope`: "+strings.Join(scopeNames(), ", "))
	flags.StringVar(&m.persist, "for", "8h", "with --remember: for this `time`, 8h or forever")
	flags.StringVar(&m.tool, "tool", "", "with --remember: for the tools of this `pattern` (default this tool)")
	flags.StringVar(&m.match, "match", "", "with --remember: for the arguments of this `pattern` (default exactly this one)")
	completeFlag(cmd, "remember", scopeNames())
	completeFlag(cmd, "for", []string{"8h", api.Forever})
}

func scopeNames() []string {
	var names []string
	for _, s := range engine.Scopes() {
		names = append(names, string(s))
	}
	return names
}

// into adds to a decision what is to be remembered of it.
func (m *memory) into(d api.DecisionRequest) (api.DecisionRequest, error) {
	if m.scope == "" {
		if m.tool != "" || m.match != "" {
			return d, usagef("--tool and --match are about what is remembered: say --remember SCOPE, too")
		}
		return d, nil
	}
	if m.persist != "8h" && m.persist != api.Forever {
		return d, usagef("--for is %q: it can be 8h or forever", clean(m.persist))
	}
	d.Scope, d.Persist, d.Tool, d.Match = engine.Scope(m.scope), m.persist, m.tool, m.match
	return d, nil
}

// remembered says of a decision that it was, and how far.
func remembered(d api.DecisionRequest) string {
	if d.Scope == "" {
		return ""
	}
	return fmt.Sprintf(", remembered for the %s (%s)", d.Scope, d.Persist)
}

func (a *app) rulesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rules",
		Short: "List remembered decisions, or remove one",
		Args:  cobra.NoArgs,
	}
	cmd.RunE = a.calling(func(ctx context.Context, c *client.Client, _ []string) error {
		list, err := c.Rules(ctx)
		if err != nil {
			return err
		}
		if a.json {
			return a.printJSON(list)
		}
		return a.listRules(list)
	})
	cmd.AddCommand(a.removeRuleCommand())
	return a.jsonFlag(cmd)
}

func (a *app) removeRuleCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "remove RULE",
		Short:             "Forget a remembered decision",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeFirst(ruleIDs),
	}
	cmd.Flags().StringVar(&a.server, "server", "", "`address` of the service (default THREADMILL_SERVER, then the local one)")
	cmd.RunE = a.calling(func(ctx context.Context, c *client.Client, args []string) error {
		r, err := c.RemoveRule(ctx, args[0])
		if err != nil {
			return err
		}
		if a.json {
			return a.printJSON(r)
		}
		_, err = fmt.Fprintf(a.out, "removed: %s %s %s\n", r.Decision, clean(r.Tool), shorten(r.Match, 200))
		return err
	})
	return a.jsonFlag(cmd)
}

func (a *app) listRules(list []engine.Rule) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(a.err, "No decision is remembered.")
		return err
	}
	now := time.Now()
	rows := [][]cell{head("ID", "DECISION", "SCOPE", "OF", "TOOL", "MATCH", "UNTIL", "BY", "USED")}
	for _, r := range list {
		until := "forever"
		if r.ExpiresAt != nil {
			until = "in " + roughly(r.ExpiresAt.Sub(now))
		}
		rows = append(rows, plainRow(r.ID, string(r.Decision), string(r.Scope), shorten(r.Subject, 40), shorten(r.Tool, 30),
			shorten(r.Match, 60), until, clean(r.CreatedBy), used(r, now)))
	}
	return a.table(rows)
}

// used tells how often a rule has decided, and when it did last.
func used(r engine.Rule, now time.Time) string {
	if r.LastUsedAt == nil {
		return "never"
	}
	return fmt.Sprintf("%d×, %s", r.Uses, ago(*r.LastUsedAt, now))
}
