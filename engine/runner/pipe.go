package runner

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"
)

// cutAllowance bounds what is still read from a pipe after it was cut: what can be in
// the largest pipe. Without a bound a grandchild that writes for ever would be read
// for ever.
const cutAllowance = 1 << 20

// pipe is the reading end of a program's output. It can be cut: from then on it yields
// what is in it and ends, whoever still holds the other end.
type pipe struct {
	file *os.File
	left int // bytes that may still be read once it was cut
	once sync.Once
	eof  chan struct{} // closed when the end was read
}

// openPipe returns the reading end and the descriptor of the writing one, which stays
// blocking because it becomes a program's stdout.
func openPipe() (*pipe, int, error) {
	r, w, err := newPipe()
	if err != nil {
		return nil, 0, err
	}
	if err := syscall.SetNonblock(r, true); err != nil {
		return nil, 0, errors.Join(err, syscall.Close(r), syscall.Close(w))
	}
	return &pipe{file: os.NewFile(uintptr(r), "pipe"), left: cutAllowance, eof: make(chan struct{})}, w, nil
}

// Read reads; every kind of end is io.EOF.
func (p *pipe) Read(b []byte) (int, error) {
	n, err := p.file.Read(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		n, err = p.readRest(b)
	}
	if err != nil {
		p.close()
		err = io.EOF
	}
	return n, err
}

// readRest reads what is in a pipe that was cut.
func (p *pipe) readRest(b []byte) (int, error) {
	raw, err := p.file.SyscallConn()
	if err != nil || p.left <= 0 {
		return 0, io.EOF
	}
	n := 0
	ctlErr := raw.Control(func(fd uintptr) { n, err = syscall.Read(int(fd), b[:min(len(b), p.left)]) })
	if ctlErr != nil || err != nil || n <= 0 {
		return 0, io.EOF
	}
	p.left -= n
	return n, nil
}

func (p *pipe) cut() {
	_ = p.file.SetReadDeadline(time.Unix(1, 0)) // fails only where it was closed already
}

func (p *pipe) close() {
	p.once.Do(func() {
		_ = p.file.Close()
		close(p.eof)
	})
}
