// Package proc finds and ends processes of this machine: what an execution has
// started, however far it ran away. A process belongs to an execution when it
// descends from its runner or carries the execution's id in its environment.
//
// The package knows process tables and signals, nothing of agents or of files.
package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

// EnvExecution is the environment variable that every process of an execution
// carries; its value is the execution's id.
const EnvExecution = "THREADMILL_EXECUTION"

// ErrGone is wrapped by what [StartTime] returns for a process that does not exist.
var ErrGone = errors.New("no such process")

const (
	firstPause = 2 * time.Millisecond
	longPause  = 200 * time.Millisecond
	// patience bounds the wait after SIGKILL; only a process stuck in the kernel outlives it.
	patience = 10 * time.Second
)

// Target says which processes to end.
type Target struct {
	ExecutionID string          // those that carry it, and their descendants
	Root        int             // the descendants of this process too; 0: none
	Exclude     []int           // never these; the caller's own process never either
	Grace       time.Duration   // between SIGTERM and SIGKILL; 0: SIGKILL at once
	Hurry       <-chan struct{} // once closed, the grace is over; nil: never
}

// Swept tells what [Sweep] did.
type Swept struct {
	Ended int // distinct processes that were signalled
	Left  int // processes that are still there
}

// process is one row of the process table.
type process struct {
	pid, parent int
	start       string // as the kernel tells it, so that a reused pid is another process
	zombie      bool
}

// StartTime tells when the kernel started a process, in the kernel's own terms, and in
// which boot. With the pid it names the process for good.
func StartTime(pid int) (string, error) {
	p, err := lookup(pid)
	if err != nil {
		return "", fmt.Errorf("look up process %d: %w", pid, err)
	}
	return p.start + bootMark + boot(), nil
}

// bootMark stands between the start of a process and the boot that it counts from.
const bootMark = "@"

// Alive reports whether the process with that pid and start time exists and has not
// exited.
func Alive(pid int, start string) bool {
	begun, booted, _ := strings.Cut(start, bootMark)
	p, err := lookup(pid)
	return err == nil && p.start == begun && booted == boot() && !p.zombie
}

// Kill sends a signal to the process with that pid and start time. Already gone is
// no error.
func Kill(pid int, start string, sig syscall.Signal) error {
	if pid <= 0 || !Alive(pid, start) {
		return nil
	}
	begun, _, _ := strings.Cut(start, bootMark)
	err := send(process{pid: pid, start: begun}, sig)
	if err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal process %d: %w", pid, err)
	}
	return nil
}

// Sweep ends every process of an execution and waits until none is left. It looks
// again until it finds nothing, so a process that forks while it is being looked for
// does not escape. The wait after SIGKILL is bounded; what the kernel refuses to end
// is counted as Left.
func Sweep(ctx context.Context, t Target) (Swept, error) {
	s := sweeper{Target: t, seen: map[process]bool{}, began: time.Now(), pause: firstPause}
	s.Exclude = append(slices.Clone(t.Exclude), os.Getpid())
	for {
		found, err := find(s.Target)
		if err != nil {
			return s.swept(found), err
		}
		if len(found) == 0 || s.exhausted() {
			return s.swept(found), nil
		}
		s.checkHurry()
		s.signal(found)
		if err := s.wait(ctx); err != nil {
			return s.swept(found), err
		}
	}
}

// Find counts the processes of an execution that exist.
func Find(t Target) (int, error) {
	t.Exclude = append(slices.Clone(t.Exclude), os.Getpid())
	found, err := find(t)
	return len(found), err
}

// sweeper is one run of [Sweep].
type sweeper struct {
	Target

	seen  map[process]bool // value: it was sent SIGTERM only
	began time.Time
	pause time.Duration
}

func (s *sweeper) swept(left []process) Swept {
	return Swept{Ended: len(s.seen), Left: len(left)}
}

func (s *sweeper) exhausted() bool {
	return time.Since(s.began) > s.Grace+patience
}

// signal sends SIGTERM once to each process within the grace, SIGKILL after it.
func (s *sweeper) signal(found []process) {
	kill := s.graceLeft() <= 0
	for _, p := range found {
		key := process{pid: p.pid, start: p.start}
		_, known := s.seen[key]
		switch {
		case kill:
			_ = send(p, syscall.SIGKILL) // gone already, or looked at again in a moment
		case !known:
			_ = send(p, syscall.SIGTERM)
			_ = send(p, syscall.SIGCONT) // a stopped process would never see it
		}
		s.seen[key] = !kill
	}
}

// checkHurry ends the grace where it is over by order.
func (s *sweeper) checkHurry() {
	select {
	case <-s.Hurry:
		s.Grace, s.Hurry = min(s.Grace, time.Since(s.began)), nil
	default:
	}
}

func (s *sweeper) wait(ctx context.Context) error {
	timer := time.NewTimer(s.untilNext())
	defer timer.Stop()
	s.pause = min(2*s.pause, longPause)
	select {
	case <-timer.C:
		return nil
	case <-s.Hurry:
		return nil // the next round checks it
	case <-ctx.Done():
		return fmt.Errorf("end the processes of execution %s: %w", s.ExecutionID, context.Cause(ctx))
	}
}

// untilNext is the pause before the next look, cut short by the end of the grace.
func (s *sweeper) untilNext() time.Duration {
	if rest := s.graceLeft(); rest > 0 {
		return min(rest, s.pause)
	}
	return s.pause
}

func (s *sweeper) graceLeft() time.Duration { return s.Grace - time.Since(s.began) }

// find returns the live processes of a target: the roots' descendants, those that
// carry the mark, and the descendants of these.
func find(t Target) ([]process, error) {
	all, err := table()
	if err != nil {
		return nil, fmt.Errorf("read the process table: %w", err)
	}
	member := belongs(all, t)
	var found []process
	for _, p := range all {
		if member[p.pid] && !p.zombie && !slices.Contains(t.Exclude, p.pid) {
			found = append(found, p)
		}
	}
	return found, nil
}

func belongs(all []process, t Target) map[int]bool {
	children := make(map[int][]int, len(all))
	for _, p := range all {
		children[p.parent] = append(children[p.parent], p.pid)
	}
	member := make(map[int]bool)
	var include func(pid int)
	include = func(pid int) {
		if !member[pid] {
			member[pid] = true
			for _, c := range children[pid] {
				include(c)
			}
		}
	}
	if t.Root > 0 {
		include(t.Root)
		delete(member, t.Root) // the root itself only where it carries the mark
	}
	mark := []byte(EnvExecution + "=" + t.ExecutionID)
	for _, p := range all {
		if t.ExecutionID != "" && !member[p.pid] && !p.zombie && !slices.Contains(t.Exclude, p.pid) && carries(p.pid, mark) {
			include(p.pid)
		}
	}
	return member
}

// hasEntry reports whether one of the NUL-terminated strings in block is entry.
func hasEntry(block, entry []byte) bool {
	for len(block) > 0 {
		var item []byte
		item, block = cutNUL(block)
		if string(item) == string(entry) {
			return true
		}
	}
	return false
}

func cutNUL(b []byte) (item, rest []byte) {
	for i, c := range b {
		if c == 0 {
			return b[:i], b[i+1:]
		}
	}
	return b, nil
}
