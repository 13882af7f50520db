package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxEnviron bounds what is read of a process's environment; the kernel's own limit
// on arguments and environment is a quarter of the stack, usually 2 MiB.
const maxEnviron = 8 << 20

// table reads the processes of this machine.
func table() ([]process, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	all := make([]process, 0, len(names))
	buf := make([]byte, 1024)
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, err := readStat(pid, buf); err == nil { // otherwise it ended meanwhile
			all = append(all, p)
		}
	}
	return all, nil
}

func lookup(pid int) (process, error) {
	return readStat(pid, make([]byte, 1024))
}

func readStat(pid int, buf []byte) (process, error) {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		err = ErrGone
	}
	if err != nil {
		return process{}, err
	}
	defer unix.Close(fd)
	n, err := unix.Read(fd, buf)
	if errors.Is(err, unix.ESRCH) {
		err = ErrGone
	}
	if err != nil {
		return process{}, err
	}
	return parseStat(pid, buf[:n])
}

// parseStat reads /proc/PID/stat. The name in parentheses may hold anything, so
// fields are counted from the last closing one: state is field 3, the parent 4, the
// start time 22.
func parseStat(pid int, line []byte) (process, error) {
	i := bytes.LastIndexByte(line, ')')
	fields := bytes.Fields(line[i+1:])
	if i < 0 || len(fields) < 20 {
		return process{}, fmt.Errorf("process %d: the kernel's line has %d fields", pid, len(fields))
	}
	parent, err := strconv.Atoi(string(fields[1]))
	if err != nil {
		return process{}, fmt.Errorf("process %d: parent: %w", pid, err)
	}
	state := fields[0][0]
	return process{
		pid:    pid,
		parent: parent,
		start:  string(fields[19]),
		zombie: state == 'Z' || state == 'X',
	}, nil
}

// carries reports whether the process was started with that environment entry. What
// belongs to somebody else cannot be read and is not ours.
func carries(pid int, entry []byte) bool {
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxEnviron))
	return err == nil && hasEntry(b, entry)
}

// send signals a process through a handle on it, so that a pid reused between the
// look and the signal is not hit.
func send(p process, sig syscall.Signal) error {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		return syscall.Kill(p.pid, sig)
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if now, err := lookup(p.pid); err != nil || now.start != p.start {
		return syscall.ESRCH
	}
	return unix.PidfdSendSignal(fd, sig, nil, 0)
}

// boot names this boot of the system: start times count from it, and after the next
// one the same pid and time may be another process's.
func boot() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(id))
}
