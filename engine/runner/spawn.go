package runner

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
)

// spawner starts all processes of a run and reaps them, the adopted ones included. It
// waits for any child itself (os/exec would lose its own children to that), and it
// starts them from one thread that lives as long as it does, because the kernel ties
// "kill the child when its parent dies" to the parent's thread.
type spawner struct {
	requests chan spawnRequest
	died     chan os.Signal
	stop     chan struct{}
	ended    sync.WaitGroup

	mu       sync.Mutex
	children map[int]*child
	sealed   bool
}

// errEnding is why nothing is started any more.
var errEnding = errors.New("the run is ending")

// child is a direct child of the runner.
type child struct {
	pid    int
	exited chan struct{} // closed once status is set
	status syscall.WaitStatus
}

type spawnRequest struct {
	path  string
	argv  []string
	attr  *syscall.ProcAttr
	reply chan<- spawnReply
}

type spawnReply struct {
	child *child
	err   error
}

func newSpawner() *spawner {
	s := &spawner{
		requests: make(chan spawnRequest),
		died:     make(chan os.Signal, 1), // a bell: one is enough, reap takes all
		stop:     make(chan struct{}),
		children: map[int]*child{},
	}
	becomeSubreaper()
	signal.Notify(s.died, syscall.SIGCHLD)
	s.ended.Go(s.spawnAll)
	s.ended.Go(s.reapAll)
	return s
}

// close stops the spawner. What it has started and is still there is killed by the
// end of its thread.
func (s *spawner) close() {
	signal.Stop(s.died)
	close(s.stop)
	s.ended.Wait()
}

// seal lets nothing be started any more. What was started before is in the process
// table when it returns.
func (s *spawner) seal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sealed = true
}

// start starts a program.
func (s *spawner) start(ctx context.Context, path string, argv []string, attr *syscall.ProcAttr) (*child, error) {
	reply := make(chan spawnReply, 1)
	select {
	case s.requests <- spawnRequest{path: path, argv: argv, attr: attr, reply: reply}:
		r := <-reply
		return r.child, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-s.stop:
		return nil, errEnding
	}
}

func (s *spawner) spawnAll() {
	runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
	for {
		select {
		case r := <-s.requests:
			c, err := s.spawn(r)
			r.reply <- spawnReply{child: c, err: err}
		case <-s.stop:
			return
		}
	}
}

// spawn holds the lock from before the fork until the child is noted, so that the
// reaper, which takes the same lock, knows every pid that it gets.
func (s *spawner) spawn(r spawnRequest) (*child, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sealed {
		return nil, errEnding
	}
	pid, err := syscall.ForkExec(r.path, r.argv, r.attr)
	if err != nil {
		return nil, err
	}
	yield(pid)
	c := &child{pid: pid, exited: make(chan struct{})}
	s.children[pid] = c
	return c, nil
}

func (s *spawner) reapAll() {
	for {
		select {
		case <-s.died:
			s.reap()
		case <-s.stop:
			s.reap()
			return
		}
	}
}

// reap collects every child that has exited.
func (s *spawner) reap() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if c := s.children[pid]; c != nil { // otherwise it was adopted
			delete(s.children, pid)
			c.status = status
			close(c.exited)
		}
	}
}

// signalGroup signals the process group that the child leads. The lock keeps its pid
// from being reaped, and so from being reused, meanwhile.
func (s *spawner) signalGroup(c *child, sig syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.children[c.pid] != c {
		return nil
	}
	if err := syscall.Kill(-c.pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// agentNice is how far agents step back. What they start (compilers, test suites) may
// keep every core busy; stopping them, answering chat and showing terminals must work
// all the same.
const agentNice = 5

// yield lowers the priority of a program that was just started. Where that is not
// possible it runs as it is.
func yield(pid int) {
	_ = syscall.Setpriority(syscall.PRIO_PGRP, pid, agentNice)
	yieldSession(pid)
}
