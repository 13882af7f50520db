package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/proc"
	"github.com/threadmill/threadmill/engine/rundir"
)

// killPatience bounds the wait for a killed runner to be gone, and for one that is
// just starting to say who it is.
const killPatience = 5 * time.Second

// Kill ends the runner and every process of the execution. After it, no runner of
// this execution can start any more.
func (h *Host) Kill(ctx context.Context, id string) (engine.Killed, error) {
	dir, err := h.dir(id)
	if err != nil {
		return engine.Killed{}, err
	}
	h.links.drop(id, nil)
	info, err := claim(ctx, dir)
	if err != nil {
		return engine.Killed{}, err
	}
	killed, err := sweep(ctx, id, info)
	h.killPane(ctx, id)
	if killed.Left == 0 {
		err = errors.Join(err, h.forget(id, ".env", ".sock"))
	}
	return killed, err
}

// sweep ends everything that belongs to the execution. The runner is stopped first
// and ended last: as long as it exists, whatever it started stays its descendant and
// can be found, and while it is stopped it starts nothing more.
func sweep(ctx context.Context, id string, info rundir.Info) (engine.Killed, error) {
	var killed engine.Killed
	alive := proc.Alive(info.Pid, info.StartTime)
	target := proc.Target{ExecutionID: id}
	if alive {
		target.Root = info.Pid
		if err := proc.Kill(info.Pid, info.StartTime, syscall.SIGSTOP); err != nil {
			return killed, err
		}
	}
	swept, err := proc.Sweep(ctx, target)
	killed.Ended = swept.Ended
	if alive {
		killed.Ended++
		err = errors.Join(err, proc.Kill(info.Pid, info.StartTime, syscall.SIGKILL))
		err = errors.Join(err, gone(ctx, info))
	}
	rest, restErr := proc.Sweep(ctx, proc.Target{ExecutionID: id})
	killed.Ended += rest.Ended
	killed.Left = rest.Left
	if proc.Alive(info.Pid, info.StartTime) {
		killed.Left++
	}
	return killed, errors.Join(err, restErr)
}

// gone waits until a killed runner has left the process table.
func gone(ctx context.Context, info rundir.Info) error {
	give := time.Now().Add(killPatience)
	for proc.Alive(info.Pid, info.StartTime) && time.Now().Before(give) {
		if err := until(ctx, time.Now().Add(2*time.Millisecond)); err != nil {
			return err
		}
	}
	return nil
}

// claim returns who runs the execution. Where nobody does, it takes the runner's
// place for good by writing an Info without a process: a runner that tmux starts late
// finds it and gives way.
func claim(ctx context.Context, dir string) (rundir.Info, error) {
	give := time.Now().Add(killPatience)
	for {
		info, started, err := rundir.ReadInfo(dir)
		if err != nil || started {
			return info, err
		}
		taken, err := takePlace(dir)
		if errors.Is(err, fs.ErrNotExist) || err == nil && taken {
			return rundir.Info{}, nil // there is nothing to run, or nobody will run it
		}
		if err != nil {
			return rundir.Info{}, err
		}
		if time.Now().After(give) {
			return rundir.Info{}, fmt.Errorf("end a run: a runner holds %s, but does not say who it is", filepath.Join(dir, rundir.LockFile))
		}
		if err := until(ctx, time.Now().Add(10*time.Millisecond)); err != nil {
			return rundir.Info{}, err
		}
	}
}

// takePlace writes the Info of nobody under the runner's lock; false where a runner
// holds the lock or has held it.
func takePlace(dir string) (bool, error) {
	if _, err := os.Stat(filepath.Join(dir, rundir.SpecFile)); err != nil {
		return false, err
	}
	f, err := os.OpenFile(filepath.Join(dir, rundir.LockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return false, fmt.Errorf("take the runner's place: %w", err)
	}
	defer f.Close()
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("take the runner's place: %w", err)
	}
	if _, started, err := rundir.ReadInfo(dir); err != nil || started {
		return false, err
	}
	nobody := rundir.Info{Version: rundir.Version, StartedAt: time.Now().UTC()}
	return true, rundir.WriteJSON(filepath.Join(dir, rundir.InfoFile), nobody)
}

// killPane ends the execution's session, which may hold a view that waits for a
// result that will never come.
func (h *Host) killPane(ctx context.Context, id string) {
	if h.pane(ctx, id) == "" {
		return
	}
	if err := h.tmux().KillSession(ctx, session(id)); err != nil {
		h.log.WarnContext(ctx, "a pane could not be closed", "execution", id, "error", err)
	}
}

// Remove deletes an execution's directory and what it has in the run directory. It
// refuses while the runner lives.
func (h *Host) Remove(_ context.Context, id string) error {
	dir, err := h.dir(id)
	if err != nil {
		return err
	}
	if info, ok, err := rundir.ReadInfo(dir); err != nil {
		return err
	} else if ok && proc.Alive(info.Pid, info.StartTime) {
		return fmt.Errorf("remove the files of %s: its runner (process %d) is still there", id, info.Pid)
	}
	h.indexes.drop(id)
	// Through the root, so that no link on the way leads anywhere else.
	root, err := os.OpenRoot(filepath.Join(h.o.Data, "executions"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove the files of %s: %w", id, err)
	}
	defer root.Close()
	name, err := filepath.Rel(root.Name(), dir)
	if err != nil {
		return fmt.Errorf("remove the files of %s: %w", id, err)
	}
	if err := root.RemoveAll(name); err != nil {
		return fmt.Errorf("remove the files of %s: %w", id, err)
	}
	return h.forget(id, ".env", ".env.new", ".sock")
}
