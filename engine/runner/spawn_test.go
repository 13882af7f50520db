package runner

import (
	"os/exec"
	"syscall"
	"testing"
)

// TestYield lets a program step back.
func TestYield(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sleep", "60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	yield(cmd.Process.Pid)
	got, err := syscall.Getpriority(syscall.PRIO_PROCESS, cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	own, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
	if err != nil {
		t.Fatal(err)
	}
	const want = 20 - agentNice // as the kernel tells it
	if got != want && got != min(own, want) {
		t.Errorf("the program's priority is %d, ours is %d; want %d, or ours where that is lower", got, own, want)
	}
}
