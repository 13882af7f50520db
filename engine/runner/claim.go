package runner

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/threadmill/threadmill/engine/proc"
	"github.com/threadmill/threadmill/engine/rundir"
)

// ErrAlreadyRun says that an execution has, or had, a runner. Nothing is wrong: who
// launches may do so twice.
var ErrAlreadyRun = errors.New("the execution has a runner already")

// claim takes the execution in dir for this process, for as long as the returned file
// is open. At most one process ever gets past it: another is either alive and holds
// the lock, or has left its mark before it did anything that must not be done twice.
func claim(dir string) (*os.File, error) {
	lock, err := os.OpenFile(filepath.Join(dir, rundir.LockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("claim the execution: %w", err)
	}
	err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = ErrAlreadyRun
	}
	for _, mark := range []string{rundir.InfoFile, rundir.ResultFile} {
		if err == nil {
			err = absent(filepath.Join(dir, mark))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("claim the execution: %w", errors.Join(err, lock.Close()))
	}
	return lock, nil
}

func absent(path string) error {
	_, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	return ErrAlreadyRun
}

// takeSecrets reads the secrets and removes them from the disk.
func takeSecrets(path string) (rundir.Secrets, error) {
	var s rundir.Secrets
	if path == "" {
		return s, nil
	}
	err := rundir.ReadJSON(path, &s)
	if rmErr := os.Remove(path); err == nil {
		err = rmErr
	}
	if err != nil {
		return s, fmt.Errorf("take the environment for the agent: %w", err)
	}
	return s, nil
}

// listen opens the control socket, for this user alone. What is left of an earlier
// one is in nobody's use, because this process holds the execution's lock.
func listen(path string) (*net.UnixListener, error) {
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() == fs.ModeSocket {
		_ = os.Remove(path)
	}
	// The mask is the whole process's, so it is set back before anything else runs.
	mask := syscall.Umask(0o177)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	syscall.Umask(mask)
	if err != nil {
		return nil, fmt.Errorf("open the control socket: %w", err)
	}
	return l, nil
}

// announce writes down where this runner can be found.
func announce(dir, socket string, began time.Time, pane bool) error {
	start, err := proc.StartTime(os.Getpid())
	if err != nil {
		return fmt.Errorf("announce the runner: %w", err)
	}
	return rundir.WriteJSON(filepath.Join(dir, rundir.InfoFile), rundir.Info{
		Version: rundir.Version, Pid: os.Getpid(), StartTime: start, Socket: socket, StartedAt: began.UTC(), Pane: pane,
	})
}

// resultRoom is more than a result has, as a rule.
const resultRoom = 4 << 10

// draft is where the result is written before it gets its name.
func draft(dir string) string { return filepath.Join(dir, "."+rundir.ResultFile) }

// reserveResult takes the room for the result while there is some: a run that has
// filled the disk must still be able to say so.
func reserveResult(dir string) error {
	if err := os.WriteFile(draft(dir), bytes.Repeat([]byte{' '}, resultRoom), 0o600); err != nil {
		return fmt.Errorf("reserve the room for the result: %w", err)
	}
	return nil
}

// writeDraft writes over what was reserved.
func writeDraft(dir string, res rundir.Result) error {
	b, err := json.MarshalIndent(res, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.OpenFile(draft(dir), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	b = append(b, '\n')
	_, err = f.Write(b)
	if err == nil {
		err = f.Truncate(int64(len(b)))
	}
	return errors.Join(err, f.Close())
}

// writeResult writes how the run ended. The events, which followers count on, and the
// result itself are on the disk before its name is, so a power failure leaves either no
// result or a true one. The log is left to the system: it can be large, and waiting for
// the disk would hold up every end for the sake of its last lines.
func writeResult(dir string, res rundir.Result) error {
	draft := draft(dir)
	err := writeDraft(dir, res)
	for _, path := range []string{filepath.Join(dir, rundir.EventsFile), draft} {
		if err == nil {
			err = syncFile(path)
		}
	}
	if err == nil {
		err = os.Rename(draft, filepath.Join(dir, rundir.ResultFile))
	}
	if err == nil {
		err = syncFile(dir)
	}
	if err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	return nil
}

func syncFile(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a run that was refused has not written it
	}
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
