package runner_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/runner"
)

// roleEnv switches the test binary to one of its other selves.
const roleEnv = "THREADMILL_TEST_ROLE"

func TestMain(m *testing.M) {
	switch role := os.Getenv(roleEnv); role {
	case "":
		goleak.VerifyTestMain(m)
	case "full disk":
		os.Exit(onSmallDisk(os.Args[1]))
	case "deaf view": // as a parent that ignores hang-ups would start it
		signal.Ignore(syscall.SIGHUP)
		os.Exit(runnerMain("view", os.Args[1]))
	case "runner", "view":
		os.Exit(runnerMain(role, os.Args[1]))
	case "agent":
		os.Exit(agentMain(os.Stdin, os.Stdout))
	case "program":
		os.Exit(programMain(os.Args[1:]))
	default:
		fmt.Fprintln(os.Stderr, "no such role:", role)
		os.Exit(2)
	}
}

func runnerMain(role, dir string) int {
	o := runner.Options{
		Dir: dir, In: os.Stdin, Out: os.Stdout,
		Adapters: map[string]agent.Adapter{"command": commandAdapter{}, "talk": talkAdapter{}, "mute": muteAdapter{}},
	}
	do := runner.Run
	if role == "view" {
		do = runner.View
	}
	if err := do(context.Background(), o); err != nil {
		fmt.Fprintln(os.Stderr, "runner:", err)
		return 1
	}
	return 0
}
