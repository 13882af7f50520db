package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/threadmill/threadmill/bot/web/api"
	"github.com/threadmill/threadmill/bot/web/client"
	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/agent"
)

func (a *app) approvalsCommand() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "approvals",
		Short: "List what agents wait for",
		Args:  cobra.NoArgs,
	}
	cmd.Flags().BoolVarP(&all, "all", "a", false, "also what is settled")
	cmd.RunE = a.calling(func(ctx context.Context, c *client.Client, _ []string) error {
		list, err := c.Approvals(ctx, engine.ApprovalFilter{OpenOnly: !all})
		if err != nil {
			return err
		}
		if a.json {
			return a.printJSON(list)
		}
		return a.listApprovals(list, numbers(ctx, c, list))
	})
	return a.jsonFlag(cmd)
}

// numbers finds the numbers of the executions that wait, for people. It is a courtesy:
// where it fails, the ids are shown.
func numbers(ctx context.Context, c *client.Client, list []engine.Approval) map[string]string {
	found := map[string]string{}
	for _, p := range list {
		if found[p.ExecutionID] != "" {
			continue
		}
		found[p.ExecutionID] = p.ExecutionID
		if e, err := c.Get(ctx, p.ExecutionID); err == nil {
			found[p.ExecutionID] = fmt.Sprintf("#%d", e.Number)
		}
	}
	return found
}

func (a *app) listApprovals(list []engine.Approval, numbers map[string]string) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(a.err, "No agent waits for anything.")
		return err
	}
	now := time.Now()
	rows := [][]cell{head("ID", "EXECUTION", "STATE", "RISK", "ASKED", "WHAT")}
	for _, p := range list {
		r := plainRow(p.ID, numbers[p.ExecutionID], askState(p), "", ago(p.CreatedAt, now), shorten(wanted(p), 80))
		r[3] = risk(p.Risk)
		rows = append(rows, r)
	}
	return a.table(rows)
}

// askState tells where an approval stands, and whether nobody has answered for long.
func askState(p engine.Approval) string {
	if p.State == agent.AskOpen && p.Ask.Reminders > 0 {
		return fmt.Sprintf("open, asked %d times", p.Ask.Reminders+1)
	}
	return string(p.State)
}

// risk shows what a permission may do, in colour; a question does nothing.
func risk(k engine.Risk) cell {
	switch k {
	case engine.RiskLow:
		return cell{text: string(k), colour: green}
	case engine.RiskMedium:
		return cell{text: string(k)}
	case engine.RiskHigh:
		return cell{text: string(k), colour: red}
	}
	return cell{text: "-"}
}

// wanted is what an agent waits for, in one line.
func wanted(p engine.Approval) string {
	if p.Kind == agent.KindQuestion {
		return questions(p.Ask)
	}
	if p.Text != "" {
		return p.Text
	}
	return p.Ask.Tool
}

func questions(ask agent.Ask) string {
	var parts []string
	for _, q := range ask.Questions {
		var labels []string
		for _, choice := range q.Choices {
			labels = append(labels, choice.Label)
		}
		parts = append(parts, strings.TrimSpace(q.Text+" "+strings.Join(labels, " | ")))
	}
	return strings.Join(parts, "; ")
}

func (a *app) approveCommand() *cobra.Command {
	var (
		answers []string
		input   string
		keep    memory
	)
	cmd := &cobra.Command{
		Use:   "approve APPROVAL|EXECUTION",
		Short: "Allow what an agent waits for, or answer its question",
		Long: `Allow what an agent waits for, or answer its question. An execution's number stands for
the one thing that it waits for; where it waits for more, name the approval by its id.
` + rememberHelp,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeFirst(openApprovals),
	}
	cmd.Flags().StringArrayVar(&answers, "answer", nil, "`answer` to a question; once per question, in their order")
	cmd.Flags().StringVar(&input, "input", "", "allow it with these arguments (`JSON`) instead of the tool's own")
	keep.flags(cmd)
	cmd.RunE = a.calling(func(ctx context.Context, c *client.Client, args []string) error {
		return a.decide(ctx, c, args[0], func(p engine.Approval) (api.DecisionRequest, error) {
			d, err := allow(p, answers, input)
			if err != nil {
				return d, err
			}
			return keep.into(d)
		})
	})
	return a.jsonFlag(cmd)
}

// allow makes the decision that the flags of `approve` describe.
func allow(p engine.Approval, answers []string, input string) (api.DecisionRequest, error) {
	d := api.DecisionRequest{Decision: api.Allow}
	if input != "" {
		if !json.Valid([]byte(input)) {
			return d, usagef("--input is no JSON")
		}
		d.ModifiedInput = json.RawMessage(input)
	}
	if p.Kind != agent.KindQuestion {
		if len(answers) > 0 {
			return d, usagef("this is a permission to give, not a question: leave --answer out")
		}
		return d, nil
	}
	if len(answers) != len(p.Ask.Questions) {
		return d, usagef("give --answer once for each question; answers: %d, questions: %d (%s)", len(answers), len(p.Ask.Questions), clean(questions(p.Ask)))
	}
	d.Answers = map[string]string{}
	for i, q := range p.Ask.Questions {
		d.Answers[q.Text] = answers[i]
	}
	return d, nil
}

func (a *app) denyCommand() *cobra.Command {
	var (
		message   string
		interrupt bool
		keep      memory
	)
	cmd := &cobra.Command{
		Use:               "deny APPROVAL|EXECUTION",
		Short:             "Refuse what an agent waits for",
		Long:              "Refuse what an agent waits for.\n" + rememberHelp,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeFirst(openApprovals),
	}
	cmd.Flags().StringVarP(&message, "message", "m", "", "`reason`, told to the agent")
	cmd.Flags().BoolVar(&interrupt, "interrupt", false, "end the agent's turn as well")
	keep.flags(cmd)
	cmd.RunE = a.calling(func(ctx context.Context, c *client.Client, args []string) error {
		return a.decide(ctx, c, args[0], func(engine.Approval) (api.DecisionRequest, error) {
			return keep.into(api.DecisionRequest{Decision: api.Deny, DenyMessage: message, Interrupt: interrupt})
		})
	})
	return a.jsonFlag(cmd)
}

// decide finds the approval that is meant and settles it.
func (a *app) decide(ctx context.Context, c *client.Client, ref string, make func(engine.Approval) (api.DecisionRequest, error)) error {
	p, err := meant(ctx, c, ref)
	if err != nil {
		return err
	}
	d, err := make(p)
	if err != nil {
		return err
	}
	p, err = c.Decide(ctx, p.ID, d)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(p)
	}
	_, err = fmt.Fprintf(a.out, "%s%s: %s\n", d.Decision, remembered(d), shorten(wanted(p), 200))
	return err
}

// meant is the open approval with that id, or the only one of the execution.
func meant(ctx context.Context, c *client.Client, ref string) (engine.Approval, error) {
	list, err := c.Approvals(ctx, engine.ApprovalFilter{OpenOnly: true})
	if err != nil {
		return engine.Approval{}, err
	}
	for _, p := range list {
		if p.ID == ref {
			return p, nil
		}
	}
	execution, err := reference(ref)
	if err != nil {
		return engine.Approval{}, fmt.Errorf("no open approval has the id %q; `threadmill approvals` lists them", clean(ref))
	}
	e, err := c.Get(ctx, execution)
	if err != nil {
		return engine.Approval{}, err
	}
	return only(list, e.Execution)
}

// only is the one open approval of an execution.
func only(list []engine.Approval, e engine.Execution) (engine.Approval, error) {
	var found []engine.Approval
	for _, p := range list {
		if p.ExecutionID == e.ID {
			found = append(found, p)
		}
	}
	switch len(found) {
	case 0:
		return engine.Approval{}, fmt.Errorf("execution #%d waits for nothing", e.Number)
	case 1:
		return found[0], nil
	}
	return engine.Approval{}, fmt.Errorf("execution #%d waits for %d things: name one of them by its id, `threadmill approvals` lists them", e.Number, len(found))
}
