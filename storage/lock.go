package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/threadmill/threadmill/engine"
)

const lockFile = "lock"

// Lock is the right to use a data directory. The kernel gives it back when the
// process ends, however it ends, so a stale one cannot exist.
type Lock struct{ file *os.File }

// AcquireLock makes dir (0700, also where it was wider and nobody else uses it) and
// locks it for this process. Where another process has it the error, CodeConflict, says which.
func AcquireLock(dir string) (*Lock, error) {
	if err := makePrivate(dir); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock of the data directory: %w", err)
	}
	if err := flock(f); err != nil {
		return nil, errors.Join(taken(dir, f, err), f.Close())
	}
	l := &Lock{file: f}
	if err := l.sign(); err != nil {
		return nil, errors.Join(err, l.Release())
	}
	return l, nil
}

// Release gives the directory free. The file stays: removing it would let two
// processes lock two files of the same name.
func (l *Lock) Release() error {
	err := l.file.Close()
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

// sign writes who holds the lock, for the one who finds it taken.
func (l *Lock) sign() error {
	err := l.file.Truncate(0)
	if err == nil {
		_, err = l.file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		return fmt.Errorf("write the lock of the data directory: %w", err)
	}
	return nil
}

func flock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

func taken(dir string, f *os.File, err error) error {
	if !errors.Is(err, syscall.EWOULDBLOCK) {
		return fmt.Errorf("lock the data directory %s: %w", dir, err)
	}
	holder := "another process"
	if pid := readPid(f); pid > 0 {
		holder = fmt.Sprintf("another threadmill (pid %d)", pid)
	}
	return engine.Errorf(engine.CodeConflict,
		"the data directory %s is in use by %s: stop that one first, or choose another data_dir", dir, holder)
}

func readPid(f *os.File) int {
	b := make([]byte, 32)
	n, _ := f.ReadAt(b, 0)
	pid, err := strconv.Atoi(strings.TrimSpace(string(b[:n])))
	if err != nil {
		return 0 // it has the lock and has not signed yet
	}
	return pid
}

// checkOurs refuses a directory that others can see and that holds anything but our
// data: somebody has named /tmp or his home, and closing that would break what uses it.
func checkOurs(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("look into the data directory: %w", err)
	}
	if len(entries) == 0 || slices.ContainsFunc(entries, isOurs) {
		return nil
	}
	return engine.Errorf(engine.CodeConflict,
		"the data directory %s can be seen by others and holds files that are not Threadmill's: set data_dir to a directory of its own, or run chmod 700 on it", dir)
}

func isOurs(e fs.DirEntry) bool { return e.Name() == lockFile || e.Name() == databaseFile }

// makePrivate makes sure that dir exists and that nobody else can look into it.
func makePrivate(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return engine.Errorf(engine.CodeUnavailable, "make the data directory %s: %w; set data_dir to one that this user can write", dir, err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("look at the data directory: %w", err)
	}
	if info.Mode().Perm() == 0o700 {
		return nil
	}
	if err := checkOurs(dir); err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o700); err != nil { //nolint:gosec // a directory needs x
		return fmt.Errorf("make the data directory %s private (run chmod 700 as its owner): %w", dir, err)
	}
	return nil
}
