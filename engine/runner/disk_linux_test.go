package runner_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/rundir"
)

// smallDisk is the size of the disk that a run of these tests fills.
const smallDisk = "256k"

// onSmallDisk runs the execution in dir on a disk of its own that is soon full, and
// copies what is then on it to where others can see it.
func onSmallDisk(dir string) int {
	spec, err := os.ReadFile(filepath.Join(dir, rundir.SpecFile))
	if err == nil {
		err = syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "")
	}
	if err == nil {
		err = syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+smallDisk)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, rundir.SpecFile), spec, 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "make a small disk:", err)
		return 2
	}
	code := runnerMain("runner", dir)
	if err := os.CopyFS(after(dir), os.DirFS(dir)); err != nil {
		fmt.Fprintln(os.Stderr, "copy what is there:", err)
		return 2
	}
	return code
}

func after(dir string) string { return dir + ".after" }

// withSmallDisk starts the runner in mounts of its own, where the system lets us.
func (g *rig) withSmallDisk() *rig {
	g.t.Helper()
	g.write()
	own := &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	probe := exec.Command("/bin/mount", "-t", "tmpfs", "none", g.t.TempDir())
	probe.SysProcAttr = own
	if err := probe.Run(); err != nil {
		g.t.Skipf("no mounts of our own here: %v", err)
	}
	g.namespace = own
	return g.launch("full disk", nil)
}

// TestFullDisk: a run that can no longer be written down is stopped, says why, and what
// it has written until then is whole.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	for name, g := range map[string]*rig{
		"log":    newRig(t, "flood", "100000000"),
		"events": newRig(t).talk("swell"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g.t = t
			g.withSmallDisk()
			if err := <-g.exited; err != nil {
				t.Fatalf("the runner failed: %v\n%s", err, g.stderr.String())
			}
			g.dir = after(g.dir)
			res, ok, err := rundir.ReadResult(g.dir)
			if err != nil || !ok || res.Status != rundir.Failed || res.Reason != agent.ReasonAgentError ||
				!strings.Contains(res.Message, "no space left on device") {
				t.Errorf("result %+v, %t, %v", res, ok, err)
			}
			if text := g.log(); text != "" && !strings.HasSuffix(text, "\n") {
				t.Errorf("the log ends in the middle of a line: %q", text[max(0, len(text)-100):])
			}
			if strings.Contains(g.dump(), "could not be recorded") {
				t.Error("an entry is missing, and the run went on")
			}
			g.checkEnd(res)
			if _, err := os.Stat(filepath.Join(g.dir, "."+rundir.ResultFile)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("a draft is left: %v", err)
			}
		})
	}
}
