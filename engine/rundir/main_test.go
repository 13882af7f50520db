package rundir_test

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/rundir"
)

// childEnv makes the test binary a program that writes an execution's files, in the
// directory that is its argument: "write" until it is killed, "full" beyond what the
// system lets it.
const childEnv = "THREADMILL_TEST_CHILD"

func TestMain(m *testing.M) {
	roles := map[string]func(dir string) error{"write": writeForEver, "full": fillTheDisk}
	if role := os.Getenv(childEnv); role != "" {
		if err := roles[role](os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
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

// fillTheDisk writes until a file may not grow any more, and a little after it may again.
// A limit on a file's size ends writes as a full disk does: in the middle.
func fillTheDisk(dir string) error {
	signal.Ignore(syscall.SIGXFSZ)
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	events, err := rundir.OpenEvents(dir)
	if err != nil {
		return err
	}
	log, err := rundir.OpenLog(dir, 0, 0)
	if err != nil {
		return err
	}
	small := limit
	small.Cur = 10_001
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &small); err != nil {
		return err
	}
	line := 0
	for err == nil {
		if err = log.Write(fmt.Appendf(nil, "[stdout] line %d\n", line)); err == nil {
			line++
		}
	}
	for full := error(nil); full == nil; {
		_, full = events.Append(agent.Entry{Content: "more"}, nil)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	_, eventErr := events.Append(agent.Entry{Content: "room again"}, nil)
	return errors.Join(eventErr, log.Write(fmt.Appendf(nil, "[stdout] line %d\n", line)))
}
