package rundir_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/rundir"
)

// childEnv makes the test binary a program that writes an execution's files until it is
// killed; its value is the directory.
const childEnv = "THREADMILL_TEST_WRITER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		fmt.Fprintln(os.Stderr, writeForEver(dir))
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// writeForEver goes on with the numbers where the files end.
func writeForEver(dir string) error {
	events, err := rundir.OpenEvents(dir)
	if err != nil {
		return err
	}
	log, err := rundir.OpenLog(dir, 4<<10, 0)
	if err != nil {
		return err
	}
	out := log.Stream(agent.Stdout, nil)
	for {
		n := events.LastSeq() + 1
		if _, err := fmt.Fprintf(out, "line %d\n", log.Lines()+1); err != nil {
			return err
		}
		if _, err := events.Append(agent.Entry{Content: fmt.Sprint(n)}, nil); err != nil {
			return err
		}
	}
}
