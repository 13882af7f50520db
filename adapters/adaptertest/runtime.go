package adaptertest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/threadmill/threadmill/adapters/internal/program"
	"github.com/threadmill/threadmill/engine/agent"
)

// drainTime bounds the wait for output after a process has exited: a grandchild may
// hold the pipe for as long as it lives.
const drainTime = 5 * time.Second

// tailLines is how much of stderr an exit status has.
const tailLines = 10

// Runtime is an [agent.Runtime] for tests: it starts real processes in groups of their
// own, kills what is left of them when the test ends, and records what was printed and
// what went over the wire.
type Runtime struct {
	bell  chan struct{} // something happened
	mu    sync.Mutex
	procs []*process
	log   []string
	in    int // lines of the protocol, to the agent
	out   int // and from it
}

// NewRuntime returns a runtime that lives as long as the test.
func NewRuntime(t testing.TB) *Runtime {
	t.Helper()
	r := &Runtime{bell: make(chan struct{}, 1)}
	t.Cleanup(r.stop)
	return r
}

// Start starts a program as the runner does.
func (r *Runtime) Start(c agent.Command) (agent.Process, error) {
	path, err := program.Find(c.Argv[0], c.Env, c.Dir)
	if err != nil {
		return nil, err
	}
	p := &process{
		cmd: &exec.Cmd{
			Path: path, Args: c.Argv, Dir: c.Dir, Env: c.Env,
			SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
		},
		done: make(chan struct{}),
	}
	if err := p.start(r, c); err != nil {
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.procs = append(r.procs, p)
	return p, nil
}

// Wire counts the line; its text is in the entries or it is noise.
func (r *Runtime) Wire(dir agent.WireDir, _ []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if dir == agent.WireIn {
		r.in++
	} else {
		r.out++
	}
}

// Wired returns how many lines of the protocol went to the agent and came from it.
func (r *Runtime) Wired() (in, out int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.in, r.out
}

// Print keeps text as lines of the log.
func (r *Runtime) Print(stream agent.Stream, text string) {
	defer r.ring()
	r.mu.Lock()
	defer r.mu.Unlock()
	for line := range strings.Lines(text) {
		r.log = append(r.log, fmt.Sprintf("[%s] %s", stream, strings.TrimSuffix(line, "\n")))
	}
}

func (r *Runtime) ring() {
	select {
	case r.bell <- struct{}{}:
	default:
	}
}

// Log returns the lines printed so far.
func (r *Runtime) Log() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.log)
}

// Signal sends a signal to the group of every process that was started.
func (r *Runtime) Signal(sig syscall.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.procs {
		_ = p.signal(sig)
	}
}

func (r *Runtime) stop() {
	r.Signal(syscall.SIGKILL)
	r.mu.Lock()
	procs := slices.Clone(r.procs)
	r.mu.Unlock()
	for _, p := range procs {
		p.Wait()
	}
}

// process is an [agent.Process].
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *output // nil where it goes to the log
	done   chan struct{}

	mu     sync.Mutex
	tail   []string
	status agent.ExitStatus // written before done is closed
}

func (p *process) start(r *Runtime, c agent.Command) error {
	var ours, theirs []io.Closer
	pipe := func() (*output, *os.File, error) {
		pr, pw, err := os.Pipe()
		if err == nil {
			ours, theirs = append(ours, pr), append(theirs, pw)
		}
		return &output{file: pr, ended: make(chan struct{})}, pw, err
	}
	stdout, stdoutW, err := pipe()
	stderr, stderrW, err2 := pipe()
	if err = errors.Join(err, err2); err == nil {
		p.cmd.Stdout, p.cmd.Stderr = stdoutW, stderrW
		if c.Stdin {
			p.stdin, err = p.cmd.StdinPipe()
		}
	}
	if err == nil {
		err = p.cmd.Start()
	}
	for _, f := range theirs {
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		for _, f := range ours {
			err = errors.Join(err, f.Close())
		}
		return err
	}
	go p.pump(r, agent.Stderr, stderr)
	if c.LogStdout {
		go p.pump(r, agent.Stdout, stdout)
	} else {
		p.stdout = stdout
	}
	go p.reap(stdout, stderr)
	return nil
}

// pump copies output into the log.
func (p *process) pump(r *Runtime, stream agent.Stream, from *output) {
	in := bufio.NewReader(from)
	for {
		line, err := in.ReadString('\n')
		if line != "" {
			r.Print(stream, line)
			p.remember(stream, line)
		}
		if err != nil {
			return
		}
	}
}

func (p *process) remember(stream agent.Stream, line string) {
	if stream != agent.Stderr {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tail = append(p.tail, line)
	p.tail = p.tail[max(0, len(p.tail)-tailLines):]
}

// reap waits for the exit, then for the output, then ends the output.
func (p *process) reap(outputs ...*output) {
	_ = p.cmd.Wait() // the state says it better
	timeout := time.NewTimer(drainTime)
	defer timeout.Stop()
	for _, o := range outputs {
		select {
		case <-o.ended:
		case <-timeout.C:
			timeout.Reset(0)
			_ = o.file.SetReadDeadline(time.Unix(1, 0)) // fails only where it was read to its end meanwhile
		}
	}
	p.mu.Lock()
	p.status = agent.ExitStatus{Code: p.cmd.ProcessState.ExitCode(), Tail: strings.Join(p.tail, "")}
	p.mu.Unlock()
	if ws, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		p.status.Signal = unix.SignalName(ws.Signal())
	}
	close(p.done)
}

// Pid is the program's.
func (p *process) Pid() int { return p.cmd.Process.Pid }

// Stdin is nil unless it was asked for.
func (p *process) Stdin() io.WriteCloser { return p.stdin }

// Stdout is nil where it goes to the log.
func (p *process) Stdout() io.Reader {
	if p.stdout == nil {
		return nil
	}
	return p.stdout
}

// Wait waits as the runner does.
func (p *process) Wait() agent.ExitStatus {
	<-p.done
	return p.status
}

// Terminate asks the group to end.
func (p *process) Terminate() error { return p.signal(syscall.SIGTERM) }

func (p *process) signal(sig syscall.Signal) error {
	err := syscall.Kill(-p.cmd.Process.Pid, sig)
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}

// output is the end of a pipe that tells when it was read to its end. One that others
// hold open is cut: a slow reader still gets all that is in it, and then the end.
type output struct {
	file  *os.File
	once  sync.Once
	ended chan struct{}
}

func (o *output) Read(b []byte) (int, error) {
	n, err := o.file.Read(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		n, err = o.rest(b)
	}
	if err != nil {
		o.once.Do(func() {
			_ = o.file.Close()
			close(o.ended)
		})
		err = io.EOF
	}
	return n, err
}

// rest reads what is in a pipe that was cut.
func (o *output) rest(b []byte) (n int, err error) {
	raw, err := o.file.SyscallConn()
	if err != nil {
		return 0, err
	}
	ctl := raw.Control(func(fd uintptr) { n, err = syscall.Read(int(fd), b) })
	if err = errors.Join(ctl, err); err != nil || n <= 0 {
		return 0, io.EOF
	}
	return n, nil
}
