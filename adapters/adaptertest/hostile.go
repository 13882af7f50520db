package adaptertest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/threadmill/threadmill/engine/agent"
)

// hostileProgram is the first argument of the test binary when it plays an agent that
// does not know the protocol.
const hostileProgram = "adaptertest-hostile"

// The ways in which it misbehaves.
const (
	hostileNoise = "noise" // prints rubbish, then the lines of a file
	hostileDeaf  = "deaf"  // reads nothing and says nothing
	hostileLeak  = "leak"  // exits and leaves a child that holds its output
	hostileMute  = "mute"  // closes its output and lives on
)

// longLine is the size of the longest line of the noise.
const longLine = 20 << 20

// Main is to be called by TestMain with the programs that the tests run as processes:
// a test binary whose first argument names one of them is that program. It returns the
// exit code; a goroutine that is left after the tests is a failure.
func Main(m *testing.M, programs map[string]func(args []string) int) int {
	if len(os.Args) > 1 {
		if os.Args[1] == hostileProgram {
			return hostile(os.Args[2:])
		}
		if run, ok := programs[os.Args[1]]; ok {
			return run(os.Args[2:])
		}
	}
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// Self returns a command line that runs this test binary as one of the programs that
// [Main] knows.
func Self(t *testing.T, name string, args ...string) []string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return append([]string{exe, name}, args...)
}

func hostile(args []string) int {
	switch args[0] {
	case hostileNoise:
		return noise(args[1])
	case hostileMute:
		_ = os.Stdout.Close()
		_, _ = io.Copy(io.Discard, os.Stdin)
	case hostileLeak:
		child := exec.CommandContext(context.Background(), "sleep", "600")
		child.Stdout = os.Stdout
		child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: syscall.Getpgrp()}
		if child.Start() != nil {
			return 2
		}
		return 1
	}
	waitForKill()
	return 0
}

// waitForKill blocks without reading anything.
func waitForKill() {
	r, w, err := os.Pipe()
	if err != nil {
		return
	}
	defer w.Close()
	_, _ = r.Read(make([]byte, 1))
}

func noise(linesFile string) int {
	out := bufio.NewWriter(os.Stdout)
	for _, line := range []string{
		"", "plain text", "{", `{"type":`, "null", "[]", `"string"`, "42", "{}", `{"type":null}`, `{"type":{"a":1}}`,
		`{"type":"no-such-type","id":7}`, `{"jsonrpc":"2.0","id":"x","method":"no/such","params":[]}`,
		"\xff\xfe\x00 invalid \xc3\x28", "\x1b[2J\x1b]0;title\x07", strings.Repeat("[", 20000), "\r\n\r",
	} {
		fmt.Fprintln(out, line)
	}
	fmt.Fprintln(out, `{"type":"`+strings.Repeat("A", longLine)+`"}`)
	lines, err := os.ReadFile(linesFile)
	if err != nil {
		return 2
	}
	_, _ = out.Write(lines)
	fmt.Fprint(out, `{"type":"unfinished`)
	if out.Flush() != nil {
		return 2
	}
	return 0
}

// hostileScenarios are about programs that do not behave.
func hostileScenarios() []scenario {
	messages := func(tr agent.Traits) bool { return tr.Messages }
	return []scenario{
		{name: "hostile: noise", run: survivesNoise},
		{name: "hostile: a child holds the output", run: survivesLeak},
		{name: "hostile: the output ends first", run: survivesMute},
		{name: "hostile: nobody reads", trait: messages, run: survivesDeaf},
	}
}

func startHostile(t *testing.T, s Subject, prompt string, args ...string) *drive {
	t.Helper()
	return start(t, s, Case{Prompt: prompt, Argv: Self(t, hostileProgram, args...)})
}

func survivesNoise(t *testing.T, s Subject) {
	file := filepath.Join(t.TempDir(), "lines")
	if err := os.WriteFile(file, []byte(strings.Join(append(s.Noise.Lines, ""), "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	d := startHostile(t, s, "hello", hostileNoise, file)
	d.outcome()
	d.sees(s.Noise.Want)
}

func survivesLeak(t *testing.T, s Subject) {
	d := startHostile(t, s, "hello", hostileLeak)
	if out := d.outcome(); out.Reason == "" || out.ExitCode == nil || *out.ExitCode != 1 {
		t.Errorf("outcome %s, want a failure with exit code 1", show(out))
	}
}

// survivesMute wants an end once the process is killed: its output has ended long ago.
func survivesMute(t *testing.T, s Subject) {
	d := startHostile(t, s, "hello", hostileMute)
	d.until("it runs", func(entries []agent.Entry) bool { return len(entries) > 0 })
	d.must("close", d.session.Close)
	d.rt.Signal(syscall.SIGKILL)
	if out := d.outcome(); out.Reason == "" {
		t.Errorf("outcome %s, want a failure", show(out))
	}
}

// survivesDeaf sends more than a pipe holds to a program that does not read.
func survivesDeaf(t *testing.T, s Subject) {
	d := startHostile(t, s, strings.Repeat("hello ", 1<<20), hostileDeaf)
	ctx, cancel := context.WithCancel(t.Context())
	sent := make(chan error)
	go func() { sent <- d.session.Send(ctx, agent.Message{ID: "m2", Text: "hello"}) }()
	cancel()
	if err := <-sent; err == nil {
		t.Error("a message to a program that does not read is taken")
	}
	d.must("close", d.session.Close)
	d.rt.Signal(syscall.SIGKILL)
	if out := d.outcome(); out.Reason == "" {
		t.Errorf("outcome %s, want a failure", show(out))
	}
}
