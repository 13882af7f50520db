package proc_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/threadmill/threadmill/engine/proc"
)

const roleEnv = "THREADMILL_TEST_ROLE"

// patience bounds every wait of the tests; nothing is measured by it.
const patience = 60 * time.Second

func TestMain(m *testing.M) {
	switch os.Getenv(roleEnv) {
	case "":
		goleak.VerifyTestMain(m)
	case "sleep":
		sleep()
	case "ignore-term":
		signal.Ignore(syscall.SIGTERM)
		sleep()
	case "family": // a child that has dropped the mark
		child("sleep", []string{roleEnv + "=sleep"})
		sleep()
	case "forking": // replaces itself again and again, faster than anybody can look
		for range 50 {
			child("forking", []string{roleEnv + "=sleep", proc.EnvExecution + "=" + os.Getenv(proc.EnvExecution)})
		}
		sleep()
	}
}

func sleep() {
	fmt.Println("ready")
	<-time.After(time.Hour)
}

func child(name string, env []string) {
	c := exec.Command(os.Args[0], name)
	c.Env = env
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		panic(err)
	}
}

// start starts a role of the test binary with the mark of an execution.
func start(t *testing.T, role, id string) *exec.Cmd {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = []string{roleEnv + "=" + role, proc.EnvExecution + "=" + id}
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() {
		_ = c.Process.Kill()
		<-done
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		t.Errorf("%s: %q, %v", role, line, err)
	}
	go func() {
		defer close(done)
		_, _ = io.Copy(io.Discard, out)
		_ = c.Wait()
	}()
	return c
}

func sweep(t *testing.T, target proc.Target) proc.Swept {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	swept, err := proc.Sweep(ctx, target)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := proc.Find(target); err != nil || n != 0 {
		t.Errorf("%d are left, %v", n, err)
	}
	return swept
}

func TestSweep(t *testing.T) {
	t.Parallel()
	for role, tc := range map[string]struct {
		grace time.Duration
		ended int
	}{
		"sleep":       {time.Hour, 1},
		"ignore-term": {200 * time.Millisecond, 1},
		"family":      {time.Hour, 2},
		"forking":     {0, 51},
	} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			id := "sweep-" + role
			other := start(t, "sleep", id+"-other")
			start(t, role, id)
			swept := sweep(t, proc.Target{ExecutionID: id, Grace: tc.grace})
			if swept.Ended != tc.ended || swept.Left != 0 {
				t.Errorf("%+v, want %d ended", swept, tc.ended)
			}
			if err := other.Process.Signal(syscall.Signal(0)); err != nil {
				t.Errorf("another execution's process: %v", err)
			}
		})
	}
}

func TestSweepStoppedProcess(t *testing.T) {
	t.Parallel()
	c := start(t, "sleep", "stopped")
	if err := c.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if swept := sweep(t, proc.Target{ExecutionID: "stopped", Grace: time.Hour}); swept.Ended != 1 {
		t.Errorf("%+v", swept)
	}
}

func TestSweepInAHurry(t *testing.T) {
	t.Parallel()
	start(t, "ignore-term", "hurry")
	hurry := make(chan struct{})
	time.AfterFunc(50*time.Millisecond, func() { close(hurry) })
	if swept := sweep(t, proc.Target{ExecutionID: "hurry", Grace: time.Hour, Hurry: hurry}); swept.Ended != 1 {
		t.Errorf("%+v", swept)
	}
}

func TestSweepSparesTheExcluded(t *testing.T) {
	t.Parallel()
	spared := start(t, "sleep", "excluded")
	start(t, "sleep", "excluded")
	swept := sweep(t, proc.Target{ExecutionID: "excluded", Grace: time.Hour, Exclude: []int{spared.Process.Pid}})
	if swept.Ended != 1 {
		t.Errorf("%+v", swept)
	}
	if n, err := proc.Find(proc.Target{ExecutionID: "excluded"}); err != nil || n != 1 {
		t.Errorf("%d are left, %v", n, err)
	}
}

func TestSweepGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	start(t, "ignore-term", "given-up")
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	swept, err := proc.Sweep(ctx, proc.Target{ExecutionID: "given-up", Grace: time.Hour})
	if !errors.Is(err, context.Canceled) || swept.Left != 1 {
		t.Errorf("%+v, %v", swept, err)
	}
}

func TestStartTimeNamesAProcess(t *testing.T) {
	t.Parallel()
	c := start(t, "sleep", "named")
	at, err := proc.StartTime(c.Process.Pid)
	if err != nil || !proc.Alive(c.Process.Pid, at) || proc.Alive(c.Process.Pid, at+"0") {
		t.Errorf("start time %q, %v", at, err)
	}
	if err := proc.Kill(c.Process.Pid, at+"0", syscall.SIGKILL); err != nil || !proc.Alive(c.Process.Pid, at) {
		t.Errorf("killed as another process: %v", err)
	}
	if err := proc.Kill(c.Process.Pid, at, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	for deadline := time.Now().Add(patience); proc.Alive(c.Process.Pid, at); {
		if time.Now().After(deadline) {
			t.Fatal("still alive")
		}
		time.Sleep(time.Millisecond) // polls
	}
	if err := proc.Kill(c.Process.Pid, at, syscall.SIGKILL); err != nil {
		t.Errorf("gone already: %v", err)
	}
}

func TestStartTimeOfNobody(t *testing.T) {
	t.Parallel()
	if _, err := proc.StartTime(1 << 30); !errors.Is(err, proc.ErrGone) {
		t.Error(err)
	}
	if proc.Alive(1<<30, "1") {
		t.Error("alive")
	}
}
