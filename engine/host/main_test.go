package host

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/threadmill/threadmill/adapters/command"
	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/proc"
	"github.com/threadmill/threadmill/engine/rundir"
	"github.com/threadmill/threadmill/engine/runner"
)

// The test binary is also the runner that the host starts, and what such a runner
// starts. A pane has none of our environment, so the switch is the first argument.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 {
		goleak.VerifyTestMain(m)
		return
	}
	var err error
	switch os.Args[1] {
	case "runner":
		err = testRunner(os.Args[2:])
	case "fork":
		err = start(true, []string{mark(os.Args[2])}, "sleep", "1000")
	case "sleep":
		select {}
	case "shout":
		shout(os.Args[2])
	default:
		goleak.VerifyTestMain(m)
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// shout is the agent of real runs: it prints numbers up to one, slowly.
func shout(upTo string) {
	n, _ := strconv.Atoi(upTo)
	for i := range n {
		fmt.Println(i + 1)
		time.Sleep(time.Millisecond)
	}
}

func mark(id string) string { return proc.EnvExecution + "=" + id }

// start starts the test binary again.
func start(session bool, env []string, args ...string) error {
	p, err := child(session, env, args...)
	if err != nil {
		return err
	}
	return p.Start()
}

func child(session bool, env []string, args ...string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := exec.CommandContext(background(), self, args...)
	p.Env = env
	p.SysProcAttr = &syscall.SysProcAttr{Setsid: session}
	return p, nil
}

// testRunner is a small runner of the tests: it keeps the contract of the run directory
// and of the control socket and does what the spec's argv says.
func testRunner(args []string) error {
	signal.Ignore(syscall.SIGHUP, syscall.SIGPIPE)
	dir := args[len(args)-1]
	spec, err := rundir.ReadSpec(dir)
	if err != nil {
		return err
	}
	if spec.Adapter == "command" {
		return realRunner(dir, args[0] == "--view")
	}
	if args[0] == "--view" {
		return view(dir)
	}
	r, err := begin(dir)
	if r == nil || err != nil {
		return err
	}
	switch r.spec.Argv[0] {
	case "count":
		err = r.count()
	case "die":
		for range 3 {
			err = errors.Join(err, r.say("dying"))
		}
		os.Exit(1)
	case "tree":
		// One child that kept nothing but its parent, one that left everything but its mark.
		// It says so once the one in between, which carries the mark as well, has ended.
		err = start(false, []string{}, "sleep")
		if forker, forkErr := child(false, []string{mark(r.spec.ExecutionID)}, "fork", r.spec.ExecutionID); forkErr != nil {
			err = errors.Join(err, forkErr)
		} else {
			err = errors.Join(err, forker.Run(), note(dir, "grown"))
		}
		<-r.cancelled
	case "serve":
		<-r.cancelled
	}
	return errors.Join(err, r.finish())
}

// realRunner is what the binary's runner command does.
func realRunner(dir string, view bool) error {
	o := runner.Options{Dir: dir, Adapters: map[string]agent.Adapter{"command": command.New()}, In: os.Stdin, Out: os.Stdout}
	if view {
		if err := note(dir, "views"); err != nil {
			return err
		}
		return runner.View(background(), o)
	}
	return runner.Run(background(), o)
}

// view notes that it was there and stays until the run has ended, or the test.
func view(dir string) error {
	if err := note(dir, "views"); err != nil {
		return err
	}
	for {
		if _, over, err := rundir.ReadResult(dir); over || err != nil {
			return err
		}
		if _, err := os.Stat(filepath.Join(dir, rundir.SpecFile)); err != nil {
			return nil //nolint:nilerr // the test has removed everything
		}
		time.Sleep(10 * time.Millisecond)
	}
}

type fakeRunner struct {
	dir       string
	spec      rundir.Spec
	lock      *os.File
	socket    net.Listener
	events    *rundir.EventWriter
	log       *rundir.LogWriter
	cancelled chan struct{}

	mu   sync.Mutex
	seen map[string]bool
}

func begin(dir string) (*fakeRunner, error) {
	r := &fakeRunner{dir: dir, cancelled: make(chan struct{}), seen: map[string]bool{}}
	var err error
	if r.lock, err = os.OpenFile(filepath.Join(dir, rundir.LockFile), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, err
	}
	err = unix.Flock(int(r.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if _, started, err := rundir.ReadInfo(dir); started || err != nil {
		return nil, err
	}
	if r.spec, err = rundir.ReadSpec(dir); err != nil {
		return nil, err
	}
	var secrets rundir.Secrets
	if err := rundir.ReadJSON(r.spec.Secrets, &secrets); err != nil {
		return nil, err
	}
	if err := errors.Join(os.Remove(r.spec.Secrets), note(dir, "starts")); err != nil {
		return nil, err
	}
	if r.socket, err = new(net.ListenConfig).Listen(background(), "unix", r.spec.Socket); err != nil {
		return nil, err
	}
	if r.events, err = rundir.OpenEvents(dir); err != nil {
		return nil, err
	}
	if r.log, err = rundir.OpenLog(dir, 0, 0); err != nil {
		return nil, err
	}
	began, err := proc.StartTime(os.Getpid())
	if err != nil {
		return nil, err
	}
	go r.accept()
	_, noTerminal := unix.IoctlGetWinsize(0, unix.TIOCGWINSZ)
	return r, rundir.WriteJSON(filepath.Join(dir, rundir.InfoFile), rundir.Info{
		Version: rundir.Version, Pid: os.Getpid(), StartTime: began, Socket: r.spec.Socket, Pane: noTerminal == nil,
	})
}

// note adds a line to a file, to be counted.
func note(dir, name string) error {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, os.Getpid())
	return errors.Join(err, f.Close())
}

func (r *fakeRunner) say(text string) error {
	_, err := r.events.Append(agent.Entry{Kind: agent.KindAssistant, Content: text}, nil)
	return errors.Join(err, r.log.Write([]byte("[stdout] "+text+"\n")))
}

// count says argv[1] numbers, argv[2] apart.
func (r *fakeRunner) count() error {
	n, err := strconv.Atoi(r.spec.Argv[1])
	if err != nil {
		return err
	}
	apart, err := time.ParseDuration(r.spec.Argv[2])
	for i := 1; i <= n && err == nil; i++ {
		err = r.say(strconv.Itoa(i))
		time.Sleep(apart)
	}
	return err
}

func (r *fakeRunner) finish() error {
	res := rundir.Result{Version: rundir.Version, Status: rundir.Succeeded, LastSeq: r.events.LastSeq(), LogBytes: r.log.Bytes(), LogLines: r.log.Lines()}
	return errors.Join(r.socket.Close(), rundir.WriteJSON(filepath.Join(r.dir, rundir.ResultFile), res))
}

func (r *fakeRunner) accept() {
	for {
		conn, err := r.socket.Accept()
		if err != nil {
			return
		}
		go r.converse(conn)
	}
}

func (r *fakeRunner) converse(conn net.Conn) {
	defer conn.Close()
	lines := bufio.NewScanner(conn)
	lines.Scan()
	out := json.NewEncoder(conn)
	_ = out.Encode(rundir.Hello{Version: rundir.Version, ExecutionID: r.spec.ExecutionID, Pid: os.Getpid(), LastSeq: r.events.LastSeq()})
	for lines.Scan() {
		var cmd rundir.Command
		if json.Unmarshal(lines.Bytes(), &cmd) != nil {
			return
		}
		if hangUp := r.carryOut(cmd); hangUp {
			return
		}
		_ = out.Encode(rundir.Reply{ID: cmd.ID, OK: true, How: rundir.HowDone})
	}
}

// carryOut does what a command says, once. The first message that says so is carried
// out without a reply.
func (r *fakeRunner) carryOut(cmd rundir.Command) (hangUp bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen[cmd.ID] {
		return false
	}
	r.seen[cmd.ID] = true
	if cmd.Op == rundir.OpCancel {
		close(r.cancelled)
	}
	if cmd.Op != rundir.OpMessage {
		return false
	}
	_ = r.say(cmd.Message.Text)
	return cmd.Message.Text == "hang up"
}

// background is for what must still work in a test's cleanup.
func background() context.Context { return context.Background() }
