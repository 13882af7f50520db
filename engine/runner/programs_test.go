package runner_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// programMain is a program of a command capability: one word for each behaviour.
func programMain(args []string) int {
	if args[0] == "ignore-term" {
		signal.Ignore(syscall.SIGTERM)
		args = args[1:]
	}
	switch args[0] {
	case "say":
		fmt.Println(strings.Join(args[1:], " "))
	case "pieces": // each argument is one write
		for _, a := range args[1:] {
			_, _ = os.Stdout.WriteString(strings.ReplaceAll(a, `\n`, "\n"))
			wait(20 * time.Millisecond)
		}
	case "fail":
		fmt.Fprintln(os.Stderr, "it went wrong")
		return 3
	case "env":
		for _, e := range os.Environ() {
			fmt.Println(e)
		}
	case "flood":
		flood(args[1], 64<<10)
	case "flood-lines":
		flood(args[1], 100)
	case "touch":
		_ = os.WriteFile(args[1], nil, 0o600)
	case "lines":
		n, _ := strconv.Atoi(args[1])
		for i := range n {
			fmt.Printf("line %d\n", i+1)
			wait(5 * time.Millisecond)
		}
	case "sleep":
		fmt.Println("asleep")
		wait(time.Hour)
	case "killed":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		wait(time.Hour)
	case "leave": // starts a child that leaves group and session, then ends
		return leave(args[1:], nil)
	case "leave-holding": // the same, and the child holds our stdout
		return leave(args[1:], os.Stdout)
	case "ctty":
		return controllingTerminal()
	}
	return 0
}

func wait(d time.Duration) { <-time.After(d) }

// flood writes lines of 100 bytes, in blocks.
func flood(size string, block int) {
	n, _ := strconv.Atoi(size)
	line := append(bytes.Repeat([]byte("x"), 99), '\n')
	lines := bytes.Repeat(line, max(1, block/len(line)))
	for n > 0 {
		m, err := os.Stdout.Write(lines[:min(n, len(lines))])
		if err != nil {
			return
		}
		n -= m
	}
}

// leave starts a program in a session of its own whose parent ends at once, so that it
// is adopted.
func leave(args []string, out io.Writer) int {
	if args[0] != "now" {
		middle := exec.Command(os.Args[0], append([]string{"leave", "now"}, args...)...)
		if out != nil {
			middle.Args[1] = "leave-holding"
			middle.Stdout = out
		}
		if err := middle.Run(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		fmt.Println("left")
		return 0
	}
	c := exec.Command(os.Args[0], args[1:]...)
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if out != nil {
		c.Stdout = out
	}
	if err := c.Start(); err != nil {
		return 1
	}
	return 0
}

// controllingTerminal tells whether there is a terminal that a program could ask at.
func controllingTerminal() int {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err == nil {
		_ = f.Close()
	}
	fmt.Println("terminal:", err == nil)
	return 0
}
