package runner_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/rundir"
)

// terminal is a pty whose master end the test holds.
type terminal struct {
	t      *testing.T
	master *os.File
	slave  *os.File
	ended  sync.WaitGroup

	mu   sync.Mutex
	seen strings.Builder
}

func newTerminal(t *testing.T) *terminal {
	t.Helper()
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := pty.Setsize(master, &pty.Winsize{Cols: 100, Rows: 30}); err != nil {
		t.Fatal(err)
	}
	x := &terminal{t: t, master: pollable(t, master), slave: slave}
	t.Cleanup(func() {
		_ = slave.Close()
		_ = master.Close()
		x.ended.Wait()
	})
	return x
}

// pollable returns the file in a form whose reader is woken when it is closed.
func pollable(t *testing.T, f *os.File) *os.File {
	t.Helper()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		err = syscall.SetNonblock(fd, true)
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	return os.NewFile(uintptr(fd), f.Name())
}

// read collects what is shown.
func (x *terminal) read() {
	x.ended.Go(func() {
		buf := make([]byte, 4096)
		for {
			n, err := x.master.Read(buf)
			x.mu.Lock()
			x.seen.Write(buf[:n])
			x.mu.Unlock()
			if err != nil {
				return
			}
		}
	})
}

func (x *terminal) shown() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.seen.String()
}

func (x *terminal) untilShown(g *rig, text string) {
	x.t.Helper()
	g.until("shown: "+text, func() bool { return strings.Contains(x.shown(), text) })
}

func (x *terminal) enter(keys string) {
	x.t.Helper()
	if _, err := x.master.WriteString(keys); err != nil {
		x.t.Fatal(err)
	}
}

// cast returns what the recording shows.
func (g *rig) cast() string {
	g.t.Helper()
	b, err := os.ReadFile(filepath.Join(g.dir, rundir.CastFile))
	if err != nil {
		g.t.Fatal(err)
	}
	return string(b)
}

func TestPane(t *testing.T) {
	t.Parallel()
	x := newTerminal(t)
	x.read()
	g := newRig(t).talk("one;work;two " + secret)
	g.write()
	g.launch("runner", x.slave)
	x.untilShown(g, "> one;work;two [masked]")
	x.untilShown(g, "you said: one")
	x.enter("hello from here\r")
	x.untilShown(g, "queued")
	x.enter("\x04\x03") // Ctrl-D does nothing
	g.untilText("got interrupt")
	g.untilText("hello from here")
	c := g.dial()
	res := finishTalk(g, c)
	want{status: rundir.Succeeded}.check(t, g, res)
	x.untilShown(g, "succeeded after")
	if info, _, _ := rundir.ReadInfo(g.dir); !info.Pane {
		t.Error("the info says that there is no pane")
	}
	g.untilEntry("the line as a message", func(e agent.Entry) bool {
		return e.Kind == agent.KindUser && e.Content == "hello from here" && e.Meta["from"] == "terminal"
	})
	for _, text := range []string{`"width":100`, "#12 a test", "you said: one", "succeeded after"} {
		if !strings.Contains(g.cast(), text) {
			t.Errorf("%q is not in the recording: %s", text, g.cast())
		}
	}
	if strings.Contains(x.shown(), secret) {
		t.Error("the secret was shown")
	}
	g.checkNoSecret()
}

func TestRecordingWithoutTerminal(t *testing.T) {
	t.Parallel()
	g := newRig(t, "say", "hello").start()
	g.end()
	if cast := g.cast(); !strings.Contains(cast, "hello") || !strings.Contains(cast, "succeeded") {
		t.Errorf("recording: %s", cast)
	}
}

// TestTerminalHangsUp closes the terminal in the middle of a run, as a dying tmux server
// does.
func TestTerminalHangsUp(t *testing.T) {
	t.Parallel()
	x := newTerminal(t)
	g := newRig(t, "lines", "200")
	g.write()
	g.launch("runner", x.slave)
	g.until("some lines", func() bool { return strings.Contains(g.log(), "line 20\n") })
	if err := x.slave.Close(); err != nil {
		t.Fatal(err)
	}
	if err := x.master.Close(); err != nil {
		t.Fatal(err)
	}
	res := g.end()
	want{status: rundir.Succeeded}.check(t, g, res)
	if res.LogLines != 200 {
		t.Errorf("%d lines", res.LogLines)
	}
}

// TestTerminalThatNeverReads floods a pane that nobody reads.
func TestTerminalThatNeverReads(t *testing.T) {
	t.Parallel()
	const size = 64 << 20
	x := newTerminal(t)
	g := newRig(t, "flood", "67108800")
	g.write()
	g.launch("runner", x.slave)
	res := g.end()
	want{status: rundir.Succeeded}.check(t, g, res)
	if lines := int64(size / 100); res.LogLines != lines || res.LogBytes != lines*(100+int64(len("[stdout] "))) {
		t.Errorf("%d lines, %d bytes", res.LogLines, res.LogBytes)
	}
}

func TestFloodIsSkippedInThePane(t *testing.T) {
	t.Parallel()
	x := newTerminal(t)
	x.read()
	g := newRig(t, "flood", "20000000")
	g.write()
	g.launch("runner", x.slave)
	g.end()
	x.untilShown(g, "succeeded after")
	if shown := x.shown(); !strings.Contains(shown, "bytes skipped, see the log") || len(shown) > 10_000_000 {
		t.Errorf("%d bytes shown", len(shown))
	}
}

// TestViewEnds: it must not stay behind when a tmux server dies again, whether or not
// it hears the hang-up, nor when the files of its run were removed.
func TestViewEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(g *rig, x *terminal){
		"view": func(_ *rig, x *terminal) {
			_ = x.slave.Close()
			_ = x.master.Close()
		},
		"deaf view": func(_ *rig, x *terminal) {
			_ = x.slave.Close()
			_ = x.master.Close()
		},
		"view of nothing": func(g *rig, _ *terminal) {
			if err := os.Remove(filepath.Join(g.dir, rundir.InfoFile)); err != nil {
				g.t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newRig(t, "sleep").start()
			owner, exited := g.cmd, g.exited
			c := g.dial()
			x := newTerminal(t)
			x.read()
			g.launch(strings.TrimSuffix(name, " of nothing"), x.slave)
			x.untilShown(g, "asleep")
			end(g, x)
			select {
			case err := <-g.exited:
				t.Logf("the view ended: %v", err)
			case <-time.After(patience):
				t.Error("the view is still there")
			}
			g.cmd, g.exited = owner, exited
			g.do(c, rundir.Command{Op: rundir.OpCancel})
			g.end()
		})
	}
}

func TestView(t *testing.T) {
	t.Parallel()
	g := newRig(t).talk("one;work;two").start()
	owner, exited := g.cmd, g.exited
	c := g.dial()
	g.untilText("you said: one")
	x := newTerminal(t)
	x.read()
	g.launch("view", x.slave)
	x.untilShown(g, "you said: one")
	x.enter("from the view\r")
	x.untilShown(g, "queued")
	x.enter("\x03")
	x.untilShown(g, "you said: from the view")
	view := g.exited
	g.cmd, g.exited = owner, exited
	finishTalk(g, c)
	if err := <-view; err != nil {
		t.Errorf("view: %v", err)
	}
	x.untilShown(g, "succeeded after")
}
