package proc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// stateZombie is SZOMB of <sys/proc.h>.
const stateZombie = 5

// table reads the processes of this machine.
func table() ([]process, error) {
	rows, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil, err
	}
	all := make([]process, 0, len(rows))
	for i := range rows {
		all = append(all, fromKernel(&rows[i]))
	}
	return all, nil
}

func lookup(pid int) (process, error) {
	row, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if errors.Is(err, unix.EIO) { // an empty answer
		return process{}, ErrGone
	}
	if err != nil {
		return process{}, err
	}
	return fromKernel(row), nil
}

func fromKernel(row *unix.KinfoProc) process {
	at := row.Proc.P_starttime
	return process{
		pid:    int(row.Proc.P_pid),
		parent: int(row.Eproc.Ppid),
		start:  fmt.Sprintf("%d.%06d", at.Sec, at.Usec),
		zombie: row.Proc.P_stat == stateZombie,
	}
}

// carries reports whether the process was started with that environment entry. The
// kernel hands out argument count, path, arguments and environment in one block.
func carries(pid int, entry []byte) bool {
	b, err := unix.SysctlRaw("kern.procargs2", pid)
	if err != nil || len(b) < 4 {
		return false
	}
	argc := int(binary.NativeEndian.Uint32(b))
	_, rest := cutNUL(b[4:]) // the path
	for len(rest) > 0 && rest[0] == 0 {
		rest = rest[1:]
	}
	for range argc {
		_, rest = cutNUL(rest)
	}
	return hasEntry(rest, entry)
}

func send(p process, sig syscall.Signal) error {
	if now, err := lookup(p.pid); err != nil || now.start != p.start {
		return syscall.ESRCH
	}
	return syscall.Kill(p.pid, sig)
}

// boot says nothing: start times are those of the calendar.
func boot() string { return "" }
