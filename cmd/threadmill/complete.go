package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/threadmill/threadmill/bot/web/client"
	"github.com/threadmill/threadmill/engine"
)

// completionTimeout bounds the call behind a tab key.
const completionTimeout = 700 * time.Millisecond

// completer asks the service for words, each with a description after a tab.
type completer func(ctx context.Context, c *client.Client) ([]string, error)

// completeFirst completes the first argument. It is best effort: without a service
// there are no suggestions, and no noise on the command line either.
func (a *app) completeFirst(ask completer) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.suggest(cmd, ask), cobra.ShellCompDirectiveNoFileComp
	}
}

func (a *app) suggest(cmd *cobra.Command, ask completer) []string {
	ctx := cmd.Context()
	if ctx == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	c, _, err := a.connect()
	if err != nil {
		return nil
	}
	defer c.Close()
	words, err := ask(ctx, c)
	if err != nil {
		return nil
	}
	return words
}

// completeFlag completes a flag from a fixed list.
func completeFlag(cmd *cobra.Command, flag string, words []string) {
	registerCompletion(cmd, flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

// completeFlagBy completes a flag with what the service says.
func (a *app) completeFlagBy(cmd *cobra.Command, flag string, ask completer) {
	registerCompletion(cmd, flag, func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return a.suggest(cmd, ask), cobra.ShellCompDirectiveNoFileComp
	})
}

func registerCompletion(cmd *cobra.Command, flag string, fn cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, fn); err != nil {
		panic(err) // a flag that the command does not have: a mistake in this package
	}
}

// executions completes the numbers of executions in these statuses; none means all.
func executions(statuses ...engine.Status) completer {
	return func(ctx context.Context, c *client.Client) ([]string, error) {
		list, _, err := c.List(ctx, engine.Filter{Statuses: statuses})
		var words []string
		for _, e := range list {
			words = append(words, fmt.Sprintf("%d\t%s, %s", e.Number, clean(e.CapabilityID), status(e).text))
		}
		return words, err
	}
}

func capabilityNames(ctx context.Context, c *client.Client) ([]string, error) {
	list, err := c.Capabilities(ctx)
	var words []string
	for _, k := range list {
		words = append(words, clean(k.ID)+"\t"+clean(k.Label))
	}
	return words, err
}

func agentNames(ctx context.Context, c *client.Client) ([]string, error) {
	list, err := c.Agents(ctx)
	var words []string
	for _, v := range list {
		words = append(words, clean(v.ID)+"\t"+clean(v.Adapter))
	}
	return words, err
}

func ruleIDs(ctx context.Context, c *client.Client) ([]string, error) {
	list, err := c.Rules(ctx)
	var words []string
	for _, r := range list {
		words = append(words, r.ID+"\t"+shorten(string(r.Decision)+" "+r.Tool+" "+r.Match, 60))
	}
	return words, err
}

func openApprovals(ctx context.Context, c *client.Client) ([]string, error) {
	list, err := c.Approvals(ctx, engine.ApprovalFilter{OpenOnly: true})
	var words []string
	for _, p := range list {
		words = append(words, p.ID+"\t"+shorten(wanted(p), 60))
	}
	return words, err
}
