package runner_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/proc"
	"github.com/threadmill/threadmill/engine/rundir"
)

// patience bounds every wait of the tests; nothing is measured by it.
const patience = 60 * time.Second

// race tells the race detector of a child to fail at once and not to linger.
const race = "GORACE=halt_on_error=1 exitcode=66 atexit_sleep_ms=0"

const secret = "s3cret-V4lue"

// rig is an execution's directory and the runner that runs it.
type rig struct {
	t       testing.TB
	dir     string
	spec    rundir.Spec
	secrets rundir.Secrets
	cmd     *exec.Cmd
	stderr  strings.Builder
	exited  chan error

	namespace *syscall.SysProcAttr // of the runner; nil: ours
}

// newRig prepares a run of a test program by the command adapter.
func newRig(tb testing.TB, argv ...string) *rig {
	tb.Helper()
	short, err := os.MkdirTemp("", "tm") //nolint:usetesting // a socket's path must be short
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(short) })
	id := rundir.NewID()
	g := &rig{t: tb, dir: filepath.Join(tb.TempDir(), id), spec: rundir.Spec{
		ExecutionID: id, Number: 12, Title: "a test", Agent: "tester", Adapter: "command",
		Argv: append([]string{os.Args[0]}, argv...), Dir: tb.TempDir(), CreatedAt: time.Now(),
		Socket: filepath.Join(short, "run.sock"), Secrets: filepath.Join(short, "secrets.json"),
		KillGrace: rundir.Duration(5 * time.Second),
	}}
	g.secrets = rundir.Secrets{
		Env: []string{
			"PATH=" + os.Getenv("PATH"), roleEnv + "=program", proc.EnvExecution + "=" + id, "TOKEN=" + secret, race,
		},
		Mask: []string{secret},
	}
	return g
}

// talk makes it a run of the talking agent.
func (g *rig) talk(prompt string) *rig {
	g.spec.Adapter, g.spec.Prompt, g.spec.PromptID, g.spec.From = "talk", prompt, "prompt-1", "alice"
	g.spec.Argv = []string{os.Args[0]}
	g.spec.IdleTimeout = rundir.Duration(time.Hour)
	g.secrets.Env[1] = roleEnv + "=agent"
	return g
}

// write writes what a host writes before it launches a runner.
func (g *rig) write() {
	g.t.Helper()
	if err := rundir.Create(g.dir, g.spec); err != nil {
		g.t.Fatal(err)
	}
	if err := rundir.WriteJSON(g.spec.Secrets, g.secrets); err != nil {
		g.t.Fatal(err)
	}
}

// start starts the runner, without a terminal.
func (g *rig) start() *rig {
	g.t.Helper()
	g.write()
	return g.launch("runner", nil)
}

// launch starts a role of the test binary, on a terminal if one is given.
func (g *rig) launch(role string, tty *os.File) *rig {
	g.t.Helper()
	g.cmd = exec.Command(os.Args[0], g.dir)
	g.cmd.Env = []string{roleEnv + "=" + role, race}
	g.cmd.SysProcAttr = &syscall.SysProcAttr{}
	if g.namespace != nil {
		*g.cmd.SysProcAttr = *g.namespace
	}
	g.cmd.SysProcAttr.Setsid = true
	g.cmd.Stderr = &g.stderr
	if tty != nil {
		g.cmd.Stdin, g.cmd.Stdout = tty, tty
		g.cmd.SysProcAttr.Setctty = true
	}
	if err := g.cmd.Start(); err != nil {
		g.t.Fatal(err)
	}
	g.exited = make(chan error, 1)
	go func(cmd *exec.Cmd, exited chan error) { exited <- cmd.Wait() }(g.cmd, g.exited)
	g.t.Cleanup(func() {
		_ = g.cmd.Process.Kill()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_, _ = proc.Sweep(ctx, proc.Target{ExecutionID: g.spec.ExecutionID})
	})
	return g
}

// end waits for the runner's exit and returns the result.
func (g *rig) end() rundir.Result {
	g.t.Helper()
	select {
	case err := <-g.exited:
		if err != nil {
			g.t.Fatalf("the runner failed: %v\n%s", err, g.stderr.String())
		}
	case <-time.After(patience):
		g.t.Fatalf("the runner does not end\n%s\n%s", g.log(), g.dump())
	}
	res, ok, err := rundir.ReadResult(g.dir)
	if err != nil || !ok {
		g.t.Fatalf("no result: %v\n%s", err, g.stderr.String())
	}
	g.checkEnd(res)
	return res
}

// checkEnd checks what must hold after every run.
func (g *rig) checkEnd(res rundir.Result) {
	g.t.Helper()
	if n, err := proc.Find(proc.Target{ExecutionID: g.spec.ExecutionID}); err != nil || n != 0 {
		g.t.Errorf("%d processes are left (%v)", n, err)
	}
	if res.Left != 0 {
		g.t.Errorf("result: %d processes left", res.Left)
	}
	for _, path := range []string{g.spec.Socket, g.spec.Secrets} {
		if _, err := os.Lstat(path); err == nil {
			g.t.Errorf("%s is still there", path)
		}
	}
	entries := g.entries()
	if int64(len(entries)) != res.LastSeq {
		g.t.Errorf("%d entries, the result says %d", len(entries), res.LastSeq)
	}
	log := g.log()
	if int64(len(log)) != res.LogBytes || int64(strings.Count(log, "\n")) != res.LogLines {
		g.t.Errorf("the log has %d bytes, %d lines; the result says %d, %d", len(log), strings.Count(log, "\n"), res.LogBytes, res.LogLines)
	}
}

// entries reads all entries; the reader refuses gaps.
func (g *rig) entries() []agent.Entry {
	g.t.Helper()
	entries, _, err := rundir.ReadEvents(g.dir, rundir.Cursor{}, 1<<20)
	if err != nil {
		g.t.Fatal(err)
	}
	return entries
}

func (g *rig) log() string {
	g.t.Helper()
	r, err := rundir.OpenLogReader(g.dir)
	if err != nil {
		return ""
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		g.t.Fatal(err)
	}
	return string(b)
}

// checkNoSecret looks for the secret in everything that the runner has written. (The
// spec is the host's, and a prompt may hold whatever somebody typed.)
func (g *rig) checkNoSecret() {
	g.t.Helper()
	files, err := filepath.Glob(filepath.Join(g.dir, "*.*"))
	if err != nil || len(files) < 5 {
		g.t.Fatalf("%v, %v", files, err)
	}
	for _, path := range files {
		b, err := os.ReadFile(path)
		if err != nil {
			g.t.Error(err)
		}
		if filepath.Base(path) != rundir.SpecFile && strings.Contains(string(b), secret) {
			g.t.Errorf("the secret is in %s", path)
		}
	}
}

func (g *rig) dump() string {
	b, _ := os.ReadFile(filepath.Join(g.dir, rundir.EventsFile))
	return string(b)
}

// until waits until a condition holds.
func (g *rig) until(what string, holds func() bool) {
	g.t.Helper()
	deadline := time.Now().Add(patience)
	for !holds() {
		if time.Now().After(deadline) {
			g.t.Fatalf("never: %s\n%s\n%s\n%s", what, g.log(), g.dump(), g.stderr.String())
		}
		time.Sleep(5 * time.Millisecond) // polls; what it waits for is checked above
	}
}

// untilEntry waits for an entry that fits.
func (g *rig) untilEntry(what string, fits func(agent.Entry) bool) agent.Entry {
	g.t.Helper()
	var found agent.Entry
	g.until(what, func() bool {
		entries, _, _ := rundir.ReadEvents(g.dir, rundir.Cursor{}, 1<<20) // the file may not be there yet
		for _, e := range entries {
			if fits(e) {
				found = e
				return true
			}
		}
		return false
	})
	return found
}

// untilText waits for an entry with that text in its content.
func (g *rig) untilText(text string) {
	g.t.Helper()
	g.untilEntry(text, func(e agent.Entry) bool {
		return e.Kind == agent.KindAssistant && strings.Contains(e.Content, text)
	})
}

// untilActivity waits until the newest activity is a, after the entry numbered after.
func (g *rig) untilActivity(a agent.Activity, after int64) {
	g.t.Helper()
	g.untilEntry(fmt.Sprintf("activity %s after %d", a, after), func(e agent.Entry) bool {
		return e.Seq > after && e.Status != nil && e.Status.Activity == a
	})
}

func (g *rig) lastSeq() int64 {
	g.t.Helper()
	return int64(len(g.entries()))
}

// dial connects to the runner.
func (g *rig) dial() *rundir.Client {
	g.t.Helper()
	var client *rundir.Client
	g.until("the runner answers", func() bool {
		ctx, cancel := context.WithTimeout(g.t.Context(), patience)
		defer cancel()
		c, hello, err := rundir.Dial(ctx, g.spec.Socket, g.spec.ExecutionID)
		if err != nil {
			return false
		}
		if hello.Pid != g.cmd.Process.Pid {
			g.t.Errorf("hello from %d, want %d", hello.Pid, g.cmd.Process.Pid)
		}
		client = c
		return true
	})
	g.t.Cleanup(func() { _ = client.Close() })
	return client
}

// do carries out a command and returns the reply.
func (g *rig) do(c *rundir.Client, cmd rundir.Command) rundir.Reply {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(g.t.Context(), patience)
	defer cancel()
	if cmd.ID == "" {
		cmd.ID = rundir.NewID()
	}
	rep, err := c.Do(ctx, cmd)
	if err != nil {
		g.t.Fatalf("%s: %v\n%s\n%s", cmd.Op, err, g.dump(), g.stderr.String())
	}
	return rep
}

func message(id, text string) rundir.Command {
	return rundir.Command{ID: id, Op: rundir.OpMessage, Message: &agent.Message{ID: id, Text: text, From: "bob"}}
}
