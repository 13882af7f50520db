package runner

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// pipeSize lets a fast producer run on while a chunk is masked and written. It is the
// most that the kernel grants an unprivileged process for one pipe.
const pipeSize = 1 << 20

// becomeSubreaper makes this process the parent of descendants whose own parents have
// ended, so that none can get out of its sight.
func becomeSubreaper() {
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) // without it the mark in the environment remains
}

// childAttr puts a program into a session of its own, away from the pane's terminal,
// and ties its life to the runner's.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

func newPipe() (r, w int, err error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return 0, 0, err
	}
	return p[0], p[1], nil
}

// enlarge makes a pipe as large as the system lets it be. All pipes of a user have one
// quota, so this is only for a program's stdout; over the quota the pipe stays small.
func enlarge(fd int) {
	_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, pipeSize)
}

// peerUID tells whose process is at the other end of a local connection.
func peerUID(conn *net.UnixConn) (int, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err == nil {
		err = credErr
	}
	if err != nil {
		return 0, fmt.Errorf("read the peer's credentials: %w", err)
	}
	return int(cred.Uid), nil
}

// yieldSession lowers the share of a session as a whole: where the kernel groups
// processes by session (autogroup), their own priorities only count among themselves.
func yieldSession(pid int) {
	_ = os.WriteFile("/proc/"+strconv.Itoa(pid)+"/autogroup", []byte(strconv.Itoa(agentNice)), 0)
}
