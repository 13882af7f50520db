package runner

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/proc"
	"github.com/threadmill/threadmill/engine/redact"
	"github.com/threadmill/threadmill/engine/rundir"
)

const wireLimit = 16 << 20

// kit is what the runner offers to an adapter, see [agent.Runtime].
type kit struct {
	ctx         context.Context //nolint:containedctx // Runtime.Start has none: processes live as long as the run
	executionID string

	dir     string
	log     *rundir.LogWriter
	mask    *redact.Masker
	pane    *pane
	spawner *spawner
	failed  func(error)   // told of a log that cannot be written
	started func(pid int) // told of each process

	mu        sync.Mutex
	processes []*process
	wire      *rundir.WireWriter
	noWire    bool // it could not be opened, or is closed
}

// Start starts a program of the run.
func (k *kit) Start(cmd agent.Command) (agent.Process, error) {
	if len(cmd.Argv) == 0 || cmd.Argv[0] == "" {
		return nil, notFoundError("there is no program to start: the command is empty")
	}
	if info, err := os.Stat(cmd.Dir); err != nil || !info.IsDir() {
		return nil, notFoundError(fmt.Sprintf("the working directory %s does not exist; create it, or configure another", cmd.Dir))
	}
	path, err := lookPath(cmd.Argv[0], cmd.Dir, cmd.Env)
	if err != nil {
		return nil, err
	}
	cmd.Env = withMark(cmd.Env, k.executionID)
	prog := program{Command: cmd, path: path, failed: k.failed}
	errs := k.stream(agent.Stderr)
	prog.stderr = errs
	if cmd.LogStdout {
		prog.stdout = k.stream(agent.Stdout)
	}
	return k.start(prog, errs)
}

// withMark makes sure of the variable by which a run's processes are found.
func withMark(env []string, id string) []string {
	mark := proc.EnvExecution + "=" + id
	if slices.Contains(env, mark) {
		return env
	}
	return append(slices.Clone(env), mark)
}

func (k *kit) start(prog program, errs *rundir.LineWriter) (agent.Process, error) {
	last := &tail{}
	show := errs.Tee
	errs.Tee = func(lines []byte) {
		last.take(lines, streamPrefix(agent.Stderr))
		show(lines)
	}
	p, err := startProcess(k.ctx, k.spawner, prog, last)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	k.processes = append(k.processes, p)
	k.mu.Unlock()
	k.started(p.Pid())
	return p, nil
}

// stream opens a place in the log that the pane shows too.
func (k *kit) stream(s agent.Stream) *rundir.LineWriter {
	w := k.log.Stream(s, k.mask)
	prefix := len(streamPrefix(s))
	w.Tee = func(lines []byte) { k.pane.lines(lines, prefix) }
	return w
}

func streamPrefix(s agent.Stream) string { return "[" + string(s) + "] " }

// Wire notes a line of the agent's protocol. It is for diagnosis: where it cannot be
// written, the run goes on without.
func (k *kit) Wire(dir agent.WireDir, line []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.wire == nil && !k.noWire {
		var err error
		k.wire, err = rundir.OpenWire(filepath.Join(k.dir, rundir.WireFile), wireLimit, k.mask)
		k.noWire = err != nil
	}
	if k.wire != nil {
		_ = k.wire.Write(dir, line)
	}
}

// Print writes text to the log.
func (k *kit) Print(stream agent.Stream, text string) {
	w := k.stream(stream)
	_, err := w.Write([]byte(text))
	if err == nil {
		err = w.Flush()
	}
	if err != nil {
		k.failed(err)
	}
}

// drain waits until all output was read, no longer than bound for each process.
func (k *kit) drain(bound time.Duration) {
	k.mu.Lock()
	processes := k.processes
	k.mu.Unlock()
	for _, p := range processes {
		p.drain(bound)
	}
}

func (k *kit) close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.noWire = true
	if k.wire == nil {
		return nil
	}
	w := k.wire
	k.wire = nil
	return w.Close()
}
