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

// pipe is the reading end of a program's output. A polled one can be cut: from then on
// it yields what is in it and ends, whoever still holds the other end. One that is not
// polled is read by a pump in a thread of its own: the kernel wakes whoever polls a
// pipe at every single write, which costs a program that writes lines half its speed.
type pipe struct {
	file   *os.File
	polled bool
	left   int // bytes that may still be read once it was cut
	once   sync.Once
	eof    chan struct{} // closed when the end was read
}

// openPipe returns the reading end and the descriptor of the writing one, which stays
// blocking because it becomes a program's stdout.
func openPipe(polled bool) (*pipe, int, error) {
	r, w, err := newPipe()
	if err != nil {
		return nil, 0, err
	}
	if err := syscall.SetNonblock(r, polled); err != nil {
		return nil, 0, errors.Join(err, syscall.Close(r), syscall.Close(w))
	}
	return &pipe{file: os.NewFile(uintptr(r), "pipe"), polled: polled, left: cutAllowance, eof: make(chan struct{})}, w, nil
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

// cut ends a polled pipe. Any other ends when the last program that holds it does.
func (p *pipe) cut() {
	if !p.polled {
		return
	}
	_ = p.file.SetReadDeadline(time.Unix(1, 0)) // fails only where it was closed already
}

func (p *pipe) close() {
	p.once.Do(func() {
		_ = p.file.Close()
		close(p.eof)
	})
}
