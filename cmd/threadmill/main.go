// Command threadmill runs coding agents and commands inside tmux and looks after
// them: `serve` is the service, most other subcommands speak its HTTP API.
//
// This package wires the others together and holds the command line; it is the one
// reader of the environment. It must not hold rules about executions: those are the
// engine's.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
)

// The exit codes of the command line.
const (
	exitOK     = 0
	exitFailed = 1 // it did not work, or the run did not succeed
	exitUsage  = 2 // the command line makes no sense
)

func main() {
	std := streams{in: os.Stdin, out: os.Stdout, err: os.Stderr}
	os.Exit(run(context.Background(), os.Args[1:], std, os.Environ()))
}

// streams are what a command reads from and writes to.
type streams struct {
	in  io.Reader
	out io.Writer
	err io.Writer
}

// run is the whole program without its process: tests drive it as main does.
func run(ctx context.Context, args []string, std streams, environ []string) int {
	if code, ok := hidden(ctx, args, std); ok {
		return code
	}
	a := &app{streams: std, environ: environ}
	root := a.root()
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	return a.exitCode(cmd, err)
}

// app is what the subcommands share.
type app struct {
	streams
	environ []string

	config  string // --config
	server  string // --server
	json    bool   // --json
	started bool   // a command's own code began, so its errors are no usage errors
}

// errFailed ends the program with exitFailed after everything was said.
var errFailed = errors.New("failed")

// usageError is a mistake in the command line that only a command itself can see.
type usageError struct{ error }

func usagef(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}

// exitCode says what went wrong in cmd, and how to get it right.
func (a *app) exitCode(cmd *cobra.Command, err error) int {
	var usage usageError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errFailed):
		return exitFailed
	case !a.started, errors.As(err, &usage):
		fmt.Fprintf(a.err, "threadmill: %v\nUsage: %s\nSee `%s --help`.\n", err, cmd.UseLine(), cmd.CommandPath())
		return exitUsage
	}
	fmt.Fprintf(a.err, "threadmill: %v\n", err)
	return exitFailed
}

// root builds the tree of commands.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "threadmill",
		Short:         "Run coding agents and commands that outlive their starter",
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRun: func(*cobra.Command, []string) {
			a.started = true
		},
	}
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.PersistentFlags().StringVar(&a.config, "config", "", "configuration `file` (default ./threadmill.yaml, then ~/.config/threadmill/threadmill.yaml)")
	root.AddGroup(
		&cobra.Group{ID: groupRuns, Title: "Executions:"},
		&cobra.Group{ID: groupService, Title: "Service:"},
	)
	root.SetHelpCommandGroupID(groupService)
	root.SetCompletionCommandGroupID(groupService)
	root.AddCommand(a.remoteCommands()...)
	root.AddCommand(a.localCommands()...)
	return root
}

// The groups of commands in the help text.
const (
	groupRuns    = "runs"
	groupService = "service"
)

// remoteCommands speak to a running service.
func (a *app) remoteCommands() []*cobra.Command {
	list := []*cobra.Command{
		a.runCommand(), a.psCommand(), a.showCommand(), a.logsCommand(), a.sendCommand(),
		a.interruptCommand(), a.cancelCommand(), a.retryCommand(), a.approvalsCommand(),
		a.approveCommand(), a.denyCommand(), a.rulesCommand(), a.attachCommand(), a.agentsCommand(),
		a.capabilitiesCommand(), a.linkCommand(), a.budgetCommand(),
	}
	for _, cmd := range list {
		cmd.GroupID = groupRuns
		cmd.Flags().StringVar(&a.server, "server", "", "`address` of the service (default THREADMILL_SERVER, then the local one)")
	}
	return list
}

// localCommands work without one.
func (a *app) localCommands() []*cobra.Command {
	doctor := a.doctorCommand()
	doctor.Flags().StringVar(&a.server, "server", "", "`address` of the service (default THREADMILL_SERVER, then the local one)")
	list := []*cobra.Command{a.serveCommand(), doctor, a.initCommand(), a.versionCommand()}
	for _, cmd := range list {
		cmd.GroupID = groupService
	}
	return list
}

// jsonFlag adds --json to a command that lists or shows something.
func (a *app) jsonFlag(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().BoolVar(&a.json, "json", false, "print the API's data as JSON")
	return cmd
}
