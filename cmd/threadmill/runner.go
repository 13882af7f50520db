package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"runtime"

	"github.com/threadmill/threadmill/adapters/demo"
	"github.com/threadmill/threadmill/engine/runner"
)

// The hidden commands that Threadmill starts itself with. They are not part of the
// command line's tree: a runner starts often and must start fast.
const (
	runnerCommand    = "runner"
	demoAgentCommand = "demo-agent"
	demoAdapter      = "demo"
)

// hidden runs a hidden command; ok is false where args name none.
func hidden(ctx context.Context, args []string, std streams) (code int, ok bool) {
	if len(args) == 0 {
		return 0, false
	}
	switch args[0] {
	case runnerCommand, demoAgentCommand:
		runtime.GOMAXPROCS(1)
	}
	switch args[0] {
	case runnerCommand:
		return runRunner(ctx, args[1:], std), true
	case demoAgentCommand:
		return demo.Main(ctx, args[1:], std.in, std.out, std.err), true
	}
	return 0, false
}

// runRunner is the process in a pane. What it has to say about an execution stands in
// the execution's files; only what keeps it from starting is said here.
func runRunner(ctx context.Context, args []string, std streams) int {
	flags := flag.NewFlagSet(runnerCommand, flag.ContinueOnError)
	flags.SetOutput(std.err)
	dir := flags.String("dir", "", "the execution's `directory`")
	view := flags.Bool("view", false, "only show what a running one does")
	if flags.Parse(args) != nil || *dir == "" {
		fmt.Fprintln(std.err, "threadmill runner: started by the service, with --dir")
		return exitUsage
	}
	o := runner.Options{Dir: *dir, Adapters: adapters(), Log: slog.New(slog.NewTextHandler(std.err, nil)), In: file(std.in), Out: file(std.out)}
	do := runner.Run
	if *view {
		do = runner.View
	}
	switch err := do(ctx, o); {
	case err == nil, errors.Is(err, runner.ErrAlreadyRun):
		return exitOK
	default:
		fmt.Fprintln(std.err, "threadmill runner:", err)
		return exitFailed
	}
}

// file is a stream as a file, where it is one.
func file(stream any) *os.File {
	f, _ := stream.(*os.File)
	return f
}
