package main

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/threadmill/threadmill/bot/web/api"
	"github.com/threadmill/threadmill/bot/web/client"
	"github.com/threadmill/threadmill/engine"
)

// maxText bounds what `run` and `send` read from standard input; the API takes no more.
const maxText = 1 << 20

// runFlags are the flags of `run`.
type runFlags struct {
	agent, task, key   string
	parent, resume     string
	fork, detach, keep bool
}

func (a *app) runCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run CAPABILITY [key=value …] [text]",
		Short: "Start an execution and follow it to its end",
		Long: `Start an execution and follow its log to its end. The exit code is 0 when it succeeded.

Words of the form key=value after the capability are its arguments; from the first
other word on, or after --, everything is the text. The text - is read from standard
input. Ctrl-C stops following; the execution goes on.`,
		Example: `  threadmill run demo "say hello; lines 5 200ms"
  threadmill run list-files path=.
  threadmill run --resume 42 demo "and now the tests"`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: a.completeFirst(capabilityNames),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.agent, "agent", "", "agent `name` instead of the capability's own")
	flags.StringVar(&f.task, "task", "", "`id` of the task it belongs to (default: a new one)")
	flags.StringVar(&f.parent, "parent", "", "`execution` that this one is a child of")
	flags.StringVar(&f.resume, "resume", "", "`execution` whose session to continue")
	flags.BoolVar(&f.fork, "fork", false, "with --resume: continue a copy of the session")
	flags.StringVar(&f.key, "idempotency-key", "", "`key` under which a repeated request is the same execution")
	flags.BoolVarP(&f.detach, "detach", "d", false, "print the execution and return at once")
	flags.BoolVar(&f.keep, "keep", false, "let the agent wait for messages after its turn (always so with --detach)")
	a.completeFlagBy(cmd, "agent", agentNames)
	a.completeFlagBy(cmd, "resume", executions(engine.Succeeded, engine.Failed, engine.TimedOut, engine.Cancelled))
	cmd.RunE = a.calling(func(ctx context.Context, c *client.Client, args []string) error {
		return a.start(ctx, c, f, args, cmd.ArgsLenAtDash())
	})
	return a.jsonFlag(cmd)
}

// start asks for the execution and follows it unless the user does not care to.
func (a *app) start(ctx context.Context, c *client.Client, f runFlags, args []string, dash int) error {
	req, err := a.request(f, args, dash)
	if err != nil {
		return err
	}
	e, err := c.Create(ctx, req)
	if err != nil {
		return err
	}
	if f.detach {
		return a.announce(e)
	}
	fmt.Fprintf(a.err, "#%d %s\n", e.Number, status(e).text)
	return a.follow(ctx, c, e)
}

func (a *app) announce(e engine.Execution) error {
	if a.json {
		return a.printJSON(e)
	}
	_, err := fmt.Fprintf(a.out, "#%d %s\n", e.Number, status(e).text)
	return err
}

// request makes the API's request of the command line.
func (a *app) request(f runFlags, args []string, dash int) (api.CreateRequest, error) {
	req := api.CreateRequest{
		Capability: args[0], Agent: f.agent, TaskID: f.task, IdempotencyKey: f.key,
		Once: !f.keep && !f.detach, Fork: f.fork,
	}
	if f.parent != "" && f.resume != "" {
		return req, usagef("--parent and --resume both name the parent: use one of them")
	}
	if f.fork && f.resume == "" {
		return req, usagef("--fork needs --resume: it says which session to copy")
	}
	if parent := f.parent + f.resume; parent != "" {
		ref, err := reference(parent)
		if err != nil {
			return req, err
		}
		req.ParentID, req.Resume = ref, f.resume != ""
	}
	var err error
	req.Args, req.Text, err = a.arguments(args[1:], dash-1)
	return req, err
}

// argument is a word that sets one.
var argument = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_-]*)=((?s).*)$`)

// arguments splits words into arguments and text. From the index dash on (negative:
// there was none) everything is text.
func (a *app) arguments(words []string, dash int) (args map[string]any, text string, err error) {
	for len(words) > 0 && dash != 0 {
		m := argument.FindStringSubmatch(words[0])
		if m == nil {
			break
		}
		if _, twice := args[m[1]]; twice {
			return nil, "", usagef("argument %s is given twice", m[1])
		}
		if args == nil {
			args = map[string]any{}
		}
		args[m[1]] = m[2]
		words, dash = words[1:], dash-1
	}
	text, err = a.text(words)
	return args, text, err
}

// text joins words, or reads standard input where they are a lone dash.
func (a *app) text(words []string) (string, error) {
	if len(words) != 1 || words[0] != "-" {
		return strings.Join(words, " "), nil
	}
	b, err := io.ReadAll(io.LimitReader(a.in, maxText+1))
	if err != nil {
		return "", fmt.Errorf("read the text from standard input: %w", err)
	}
	if len(b) > maxText {
		return "", usagef("the text on standard input is longer than %s", size(maxText))
	}
	return string(b), nil
}

// follow shows an execution's log until it ends; then the exit code says how.
func (a *app) follow(ctx context.Context, c *client.Client, e engine.Execution) error {
	w := &watcher{app: a, number: e.Number, once: e.Once, quiet: a.json}
	err := c.Follow(ctx, e.ID, w.handlers())
	if err != nil && ctx.Err() != nil {
		fmt.Fprintf(a.err, "\nNo longer following: #%d goes on. `threadmill logs -f %d` follows it again, `threadmill cancel %d` ends it.\n",
			e.Number, e.Number, e.Number)
		return errFailed
	}
	if err != nil {
		return err
	}
	return a.conclude(ctx, c, w.end)
}

// conclude says how an execution ended.
func (a *app) conclude(ctx context.Context, c *client.Client, e engine.Execution) error {
	if a.json {
		detail, err := c.Get(ctx, fmt.Sprint(e.Number))
		if err != nil {
			return err
		}
		if err := a.printJSON(detail); err != nil {
			return err
		}
	} else {
		fmt.Fprintln(a.err, a.verdict(e))
	}
	if e.Status != engine.Succeeded {
		return errFailed
	}
	return nil
}

// verdict is the last line about an execution.
func (a *app) verdict(e engine.Execution) string {
	s := status(e)
	line := fmt.Sprintf("#%d %s", e.Number, a.paint(a.err, s.colour, s.text))
	if e.ExitCode != nil && *e.ExitCode != 0 {
		line += fmt.Sprintf(" (exit code %d)", *e.ExitCode)
	}
	if e.Error != "" {
		line += ": " + clean(e.Error)
	}
	return line
}
