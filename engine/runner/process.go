package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/threadmill/threadmill/engine/agent"
)

const (
	// drainWait is how long a program's output may stay open after its exit.
	drainWait = 2 * time.Second
	// pumpBuffer is how much output is read at once.
	pumpBuffer = 256 << 10
	// smallRead and pumpRest say when a pump lets small writes gather, and for how long;
	// the pipe takes what is written meanwhile.
	smallRead = 16 << 10
	pumpRest  = time.Millisecond
	// tailBytes is how much of stderr is kept for error messages.
	tailBytes = 4 << 10
)

// process is a started program.
type process struct {
	child   *child
	spawner *spawner
	stdin   *os.File // nil without one
	stdout  *pipe
	stderr  *pipe
	piped   bool            // the adapter reads stdout
	pumps   []chan struct{} // closed when the pump has written all
	tail    *tail
	waited  sync.Once
}

// sink takes the output of a program into the log.
type sink interface {
	io.Writer
	Flush() error
}

// program is a checked [agent.Command] with the places its output goes to.
type program struct {
	agent.Command

	path   string
	stdout sink // nil: the adapter reads it
	stderr sink
	failed func(error) // told of a log that cannot be written
}

// startProcess starts a program and the pumps of its output; last gets the end of its
// stderr.
func startProcess(ctx context.Context, s *spawner, prog program, last *tail) (*process, error) {
	p := &process{spawner: s, piped: prog.stdout == nil, tail: last}
	files, err := p.open(prog.Stdin, p.piped)
	if err == nil {
		p.child, err = s.start(ctx, prog.path, prog.Argv, &syscall.ProcAttr{
			Dir: prog.Dir, Env: prog.Env, Files: files, Sys: childAttr(),
		})
	}
	for _, fd := range files {
		_ = syscall.Close(int(fd))
	}
	if err != nil {
		p.abandon()
		return nil, fmt.Errorf("start %s: %w", prog.Argv[0], err)
	}
	p.pump(p.stderr, prog.stderr, prog.failed)
	if prog.stdout != nil {
		p.pump(p.stdout, prog.stdout, prog.failed)
	}
	return p, nil
}

// open makes the program's three streams and returns its ends of them.
func (p *process) open(stdin, piped bool) (files []uintptr, err error) {
	in, err := p.openStdin(stdin)
	if err != nil {
		return nil, err
	}
	files = append(files, uintptr(in))
	for _, stream := range []**pipe{&p.stdout, &p.stderr} {
		r, w, err := openPipe(piped && stream == &p.stdout)
		if err != nil {
			return files, err
		}
		*stream = r
		files = append(files, uintptr(w))
	}
	enlarge(int(files[1]))
	return files, nil
}

func (p *process) openStdin(piped bool) (fd int, err error) {
	if !piped {
		return syscall.Open(os.DevNull, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	}
	r, w, err := newPipe()
	if err != nil {
		return 0, err
	}
	if err := syscall.SetNonblock(w, true); err != nil {
		return 0, errors.Join(err, syscall.Close(r), syscall.Close(w))
	}
	p.stdin = os.NewFile(uintptr(w), "stdin")
	return r, nil
}

// abandon closes what was opened for a program that could not be started.
func (p *process) abandon() {
	if p.stdin != nil {
		_ = p.stdin.Close()
	}
	for _, stream := range []*pipe{p.stdout, p.stderr} {
		if stream != nil {
			stream.close()
		}
	}
}

// pump copies output into the log. It reads on when the log takes no more, so that
// the program is not stopped by a full pipe before it is stopped properly.
func (p *process) pump(from *pipe, to sink, failed func(error)) {
	done := make(chan struct{})
	p.pumps = append(p.pumps, done)
	go func() {
		defer close(done)
		var bad error
		buf := make([]byte, pumpBuffer)
		for rest := newPacer(); ; {
			n, err := from.Read(buf)
			if n > 0 && bad == nil {
				if _, bad = to.Write(buf[:n]); bad != nil {
					failed(bad)
				}
			}
			if err != nil {
				break
			}
			rest.after(n)
		}
		if err := to.Flush(); err != nil && bad == nil {
			failed(err)
		}
	}()
}

// pacer makes a reader of many small writes take a short rest between them, so that
// they come in one piece instead of waking it for each. A slow writer is read at once.
type pacer struct {
	timer *time.Timer
	last  time.Time
}

func newPacer() *pacer { return &pacer{timer: time.NewTimer(0)} }

func (r *pacer) after(n int) {
	now := time.Now()
	if n < smallRead && now.Sub(r.last) < 2*pumpRest {
		r.timer.Reset(pumpRest)
		<-r.timer.C
		now = time.Now()
	}
	r.last = now
}

// Pid returns the process id.
func (p *process) Pid() int { return p.child.pid }

// Stdin returns the writing end of the program's stdin, nil where it has none.
func (p *process) Stdin() io.WriteCloser {
	if p.stdin == nil {
		return nil
	}
	return p.stdin
}

// Stdout returns the program's output, nil where it goes to the log.
func (p *process) Stdout() io.Reader {
	if !p.piped {
		return nil
	}
	return p.stdout
}

// Wait waits for the exit and, within a bound, for the output.
func (p *process) Wait() agent.ExitStatus {
	p.waited.Do(func() {
		<-p.child.exited
		p.drain(drainWait)
	})
	return exitStatus(p.child.status, p.tail.String())
}

// Terminate asks the program's process group to end.
func (p *process) Terminate() error {
	if err := p.spawner.signalGroup(p.child, syscall.SIGTERM); err != nil {
		return fmt.Errorf("terminate process %d: %w", p.child.pid, err)
	}
	return nil
}

// drain waits, within a bound, until the output was read and written down. After it, an
// adapter that still reads comes to the end; a pump goes on as long as somebody writes.
func (p *process) drain(bound time.Duration) {
	timer := time.NewTimer(bound)
	defer timer.Stop()
	ends := p.pumps
	if p.piped {
		ends = append(slices.Clone(ends), p.stdout.eof)
	}
	for _, end := range ends {
		select {
		case <-end:
		case <-timer.C:
			timer.Reset(0) // for the others
			p.stdout.cut()
		}
	}
}

func exitStatus(ws syscall.WaitStatus, stderr string) agent.ExitStatus {
	s := agent.ExitStatus{Code: ws.ExitStatus(), Tail: stderr}
	if ws.Signaled() {
		s.Code, s.Signal = -1, unix.SignalName(ws.Signal())
	}
	return s
}

// lookPath finds the program name in the PATH of env, as execvp would, or relative to
// dir where it has a slash. It names what it looked for and where.
func lookPath(name, dir string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return name, executable(name)
	}
	path := pathOf(env)
	for _, d := range filepath.SplitList(path) {
		file := filepath.Join(d, name)
		if filepath.IsAbs(d) && executable(file) == nil {
			return file, nil
		}
	}
	return "", notFoundError(fmt.Sprintf("there is no program %q in PATH %s; install it, or name it by its full path", name, path))
}

func pathOf(env []string) string {
	path := ""
	for _, e := range env { // the last one wins, as everywhere
		if v, ok := strings.CutPrefix(e, "PATH="); ok {
			path = v
		}
	}
	return path
}

func executable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return notFoundError(fmt.Sprintf("there is no program %s", path))
	case info.IsDir():
		return notFoundError(path + " is a directory, not a program")
	case unix.Access(path, unix.X_OK) != nil:
		return notFoundError(path + " is not executable; chmod +x it, or name another program")
	}
	return nil
}

// notFoundError is about something that has to be there to start; it is an
// os.ErrNotExist.
type notFoundError string

func (e notFoundError) Error() string { return string(e) }

func (e notFoundError) Is(target error) bool { return target == os.ErrNotExist }

// tail keeps the last lines that were written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

// take keeps lines, which begin with prefix each.
func (t *tail) take(lines []byte, prefix string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for line := range bytes.Lines(lines[max(0, len(lines)-2*tailBytes):]) {
		line, ok := bytes.CutPrefix(line, []byte(prefix))
		if ok { // a line that was cut in two has lost it
			t.buf = append(t.buf, line...)
		}
	}
	if over := len(t.buf) - tailBytes; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(strings.ToValidUTF8(string(t.buf), "\uFFFD"))
}
