package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/rundir"
)

// patience is how long a test waits for what must happen: long, since machines that
// run tests are slow and busy, and never part of what is asserted.
const patience = 2 * time.Minute

// binary builds threadmill as it is shipped, with the race detector where the tests
// have it, once for all tests.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "threadmill-test-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "threadmill")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if raceEnabled {
		build = exec.Command("go", "build", "-race", "-o", path, ".")
	}
	out, err := build.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build threadmill: %w\n%s", err, out)
	}
	return path, nil
})

// removeBinary deletes what binary built.
func removeBinary() {
	if path, err := binary(); err == nil {
		os.RemoveAll(filepath.Dir(path))
	}
}

// service is a real `threadmill serve`, in a process and a home of its own.
type service struct {
	testing.TB

	bin, home, address string
	env                []string
	cmd                *exec.Cmd
	log                *syncBuffer
	tmuxPid            int // while it is stopped
}

// newService prepares a home with a configuration and capabilities, by file name.
func newService(tb testing.TB, config string, capabilities map[string]string) *service {
	tb.Helper()
	bin, err := binary()
	if err != nil {
		tb.Fatal(err)
	}
	s := &service{TB: tb, bin: bin, home: shortTempDir(tb), address: freeAddress(tb), log: &syncBuffer{}}
	for _, dir := range []string{"work", "capabilities", "home"} {
		must(tb, os.MkdirAll(filepath.Join(s.home, dir), 0o700))
	}
	if config != "" {
		text := strings.ReplaceAll(config, "$WORK", s.work()) + "capabilities: [capabilities]\n"
		must(tb, os.WriteFile(s.configFile(), []byte(text), 0o600))
	}
	for name, text := range capabilities {
		must(tb, os.WriteFile(filepath.Join(s.home, "capabilities", name+".yaml"), []byte(text), 0o600))
	}
	s.env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(s.home, "home"), "TMPDIR=" + s.home,
		"RUNTIME_DIRECTORY=" + s.home, "THREADMILL_HOME=" + s.home, "THREADMILL_LISTEN=" + s.address,
		"THREADMILL_PUBLIC_URL=http://" + s.address,
		"SERVICE_SECRET=must-not-reach-an-agent",
	}
	if config != "" {
		s.env = append(s.env, "THREADMILL_CONFIG="+s.configFile())
	}
	tb.Cleanup(s.end)
	return s
}

func (s *service) configFile() string { return filepath.Join(s.home, "threadmill.yaml") }
func (s *service) work() string       { return filepath.Join(s.home, "work") }

// data is where the service keeps its files.
func (s *service) data() string { return filepath.Join(s.home, "data") }

// shortTempDir is a directory whose path leaves room for sockets in it.
func shortTempDir(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("/tmp", "tm-") //nolint:usetesting // its directories have long names
	must(tb, err)
	tb.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// freeAddress is a loopback address that nobody listens at right now.
func freeAddress(tb testing.TB) string {
	tb.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(tb, err)
	defer ln.Close()
	return ln.Addr().String()
}

// start starts `serve` and waits until it is ready.
func (s *service) start() {
	s.Helper()
	s.cmd = exec.Command(s.bin, "serve")
	s.cmd.Env, s.cmd.Dir = s.env, s.home
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must(s, s.cmd.Start())
	s.eventually("the service is ready", func() bool {
		resp, err := http.Get("http://" + s.address + "/readyz")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// kill ends the service as a crash would.
func (s *service) kill() {
	s.Helper()
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill() // it may have ended by itself
	_ = s.cmd.Wait()
	s.cmd = nil
}

// stop ends the service politely.
func (s *service) stop() {
	s.Helper()
	must(s, s.cmd.Process.Signal(syscall.SIGTERM))
	if err := s.cmd.Wait(); err != nil {
		s.Errorf("serve ended with %v; it said:\n%s", err, s.log)
	}
	s.cmd = nil
}

// end cleans up: everything that any execution left, the tmux server and the service.
func (s *service) end() {
	if s.Failed() {
		s.Logf("the service said:\n%s", s.log.tail(20000))
	}
	s.kill()
	infos, _ := filepath.Glob(filepath.Join(s.data(), "executions/*/*/*", rundir.InfoFile))
	for _, path := range infos {
		if info, ok, _ := rundir.ReadInfo(filepath.Dir(path)); ok && info.Pid > 1 { // 0: it was kept from starting
			_ = syscall.Kill(info.Pid, syscall.SIGKILL) // most have ended; the agents die with their runners
		}
	}
	if sock := s.tmuxSocket(); sock != "" {
		_ = exec.Command("tmux", "-S", sock, "kill-server").Run() // it may be gone already
	}
}

// tmuxSocket is where the service's own tmux server listens; empty before it does.
func (s *service) tmuxSocket() string {
	found, _ := filepath.Glob(filepath.Join(s.home, "*", "*", "tmux.sock"))
	more, _ := filepath.Glob(filepath.Join(s.home, "*", "tmux.sock"))
	if found = append(found, more...); len(found) > 0 {
		return found[0]
	}
	return ""
}

// callError is a refusal by the API.
type callError struct {
	Status int
	Text   string `json:"error"`
	Code   string `json:"code"`
}

func (e *callError) Error() string { return fmt.Sprintf("%d %s: %s", e.Status, e.Code, e.Text) }

// try calls the API as any program would, without the project's own client.
func (s *service) try(method, path string, body, into any) error {
	var in io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		must(s, err)
		in = bytes.NewReader(b)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+s.address+path, in)
	must(s, err)
	token, err := os.ReadFile(filepath.Join(s.data(), "api-token"))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return readAnswer(resp, into)
}

func readAnswer(resp *http.Response, into any) error {
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode >= http.StatusBadRequest {
		refused := &callError{Status: resp.StatusCode}
		return errors.Join(json.Unmarshal(b, refused), refused)
	}
	switch into := into.(type) {
	case nil:
		return nil
	case *string:
		*into = string(b)
		return nil
	}
	return json.Unmarshal(b, &struct{ Data any }{into})
}

// call is try for what must work.
func (s *service) call(method, path string, body, into any) {
	s.Helper()
	if err := s.try(method, path, body, into); err != nil {
		s.Fatalf("%s %s: %v", method, path, err)
	}
}

// submit starts an execution.
func (s *service) submit(body map[string]any) engine.Execution {
	s.Helper()
	var x engine.Execution
	s.call("POST", "/api/executions", body, &x)
	return x
}

// get reads an execution.
func (s *service) get(id string) engine.Execution {
	s.Helper()
	var x engine.Execution
	s.call("GET", "/api/executions/"+id, nil, &x)
	return x
}

// wait waits until an execution has ended.
func (s *service) wait(id string) engine.Execution {
	s.Helper()
	return s.until(id, func(x engine.Execution) bool { return x.Status.Ended() })
}

// until waits until an execution is as wanted.
func (s *service) until(id string, wanted func(engine.Execution) bool) engine.Execution {
	s.Helper()
	var x engine.Execution
	s.eventually("execution "+id, func() bool {
		x = engine.Execution{}
		return s.try("GET", "/api/executions/"+id, nil, &x) == nil && wanted(x)
	})
	return x
}

// running waits until an execution's agent runs, and returns it.
func (s *service) running(id string) engine.Execution {
	s.Helper()
	return s.until(id, func(x engine.Execution) bool { return x.Status == engine.Running && x.Pid > 0 })
}

// entries reads everything an execution did, and checks that the numbers are gapless.
func (s *service) entries(id string) []agent.Entry {
	s.Helper()
	var all []agent.Entry
	for {
		var page []agent.Entry
		s.call("GET", fmt.Sprintf("/api/executions/%s/entries?after=%d&limit=1000", id, len(all)), nil, &page)
		if len(page) == 0 {
			break
		}
		all = append(all, page...)
	}
	for i, en := range all {
		if en.Seq != int64(i+1) {
			s.Fatalf("entry %d has seq %d: %+v", i, en.Seq, en)
		}
	}
	return all
}

// logLines downloads an execution's whole log.
func (s *service) logLines(id string) []string {
	s.Helper()
	var text string
	s.call("GET", "/api/executions/"+id+"/logs", nil, &text)
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// dir is an execution's directory.
func (s *service) dir(id string) string {
	s.Helper()
	dir, err := rundir.Dir(s.data(), id)
	must(s, err)
	return dir
}

// eventually waits until ok, looking often.
func (s *service) eventually(what string, ok func() bool) {
	s.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			s.Fatalf("waited in vain: %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// left returns the processes that carry an execution's id in their environment.
func left(tb testing.TB, id string) []int {
	tb.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/environ")
	must(tb, err)
	var pids []int
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(b, []byte("THREADMILL_EXECUTION="+id)) {
			continue
		}
		pid, err := strconv.Atoi(strings.Split(path, "/")[2])
		must(tb, err)
		pids = append(pids, pid)
	}
	return pids
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// syncBuffer is a bytes.Buffer that several goroutines may use.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func (b *syncBuffer) tail(n int) string {
	s := b.String()
	return s[max(0, len(s)-n):]
}

// runner is the pid of an execution's runner.
func (s *service) runner(id string) int {
	s.Helper()
	info, ok, err := rundir.ReadInfo(s.dir(id))
	must(s, err)
	if !ok {
		s.Fatalf("execution %s has no runner", id)
	}
	return info.Pid
}
