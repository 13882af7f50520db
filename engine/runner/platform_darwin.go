package runner

import (
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// becomeSubreaper has no counterpart here; the mark in the environment finds what
// has left the process tree.
func becomeSubreaper() {}

// childAttr puts a program into a session of its own, away from the pane's terminal.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true}
}

func newPipe() (r, w int, err error) {
	var p [2]int
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := unix.Pipe(p[:]); err != nil {
		return 0, 0, err
	}
	unix.CloseOnExec(p[0])
	unix.CloseOnExec(p[1])
	return p[0], p[1], nil
}

// enlarge does nothing: pipes grow by themselves here.
func enlarge(int) {}

// peerUID tells whose process is at the other end of a local connection.
func peerUID(conn *net.UnixConn) (int, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Xucred
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptXucred(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	})
	if err == nil {
		err = credErr
	}
	if err != nil {
		return 0, fmt.Errorf("read the peer's credentials: %w", err)
	}
	return int(cred.Uid), nil
}

// yieldSession does nothing: priorities count as they are.
func yieldSession(int) {}
