package tmux

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// The defaults of bounds. A healthy server answers within milliseconds.
const (
	defaultTimeout = 3 * time.Second
	restAfterFault = 5 * time.Second // how long a server that did not answer is left alone
)

// holder is the session that our control client sits in. It goes when the client
// goes, so a server without runs ends together with the service.
const holder = "threadmill"

// ErrUnavailable is wrapped by what calls return where tmux does not answer or could
// not be started. The caller goes on without a terminal.
var ErrUnavailable = errors.New("tmux is not available")

// CommandError is a command that tmux understood and refused.
type CommandError struct {
	Text string // what tmux said
}

// Error returns what tmux said.
func (e *CommandError) Error() string { return "tmux: " + e.Text }

// refused reports whether tmux understood a command and said no.
func refused(err error) bool {
	_, ok := errors.AsType[*CommandError](err)
	return ok
}

// Options says which server.
type Options struct {
	Path    string        // of the tmux binary, absolute
	Dir     string        // holds socket and configuration; short, ours alone
	Timeout time.Duration // of one command; 0: 3 s
	Logger  *slog.Logger
}

// Server is a tmux server that is started when it is needed. All methods may be
// called concurrently.
type Server struct {
	path, socket, config string
	timeout              time.Duration
	log                  *slog.Logger

	mu     sync.Mutex
	client *control
	closed bool
	rest   time.Time // not to be asked before that
	bare   time.Time // not to be asked for a control client before that

	connecting chan struct{} // holds one token: one connect at a time
}

// New returns the server that lives in o.Dir. It starts nothing.
func New(o Options) *Server {
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	return &Server{
		path: o.Path, socket: filepath.Join(o.Dir, "tmux.sock"), config: filepath.Join(o.Dir, "tmux.conf"),
		timeout: o.Timeout, log: o.Logger, connecting: make(chan struct{}, 1),
	}
}

// Socket is the path of the server's socket.
func (s *Server) Socket() string { return s.socket }

// Path is the path of the tmux binary.
func (s *Server) Path() string { return s.path }

// AttachArgv is the command that shows a session on a terminal.
func (s *Server) AttachArgv(session string, readOnly bool) []string {
	argv := s.argv("attach-session", "-t", "="+session)
	if readOnly {
		argv = append(argv, "-r")
	}
	return argv
}

// NewSession starts a detached session that runs argv, which must have two words at
// least: tmux gives a single one to a shell. A session of that name that exists
// already is left as it is, which is not an error.
func (s *Server) NewSession(ctx context.Context, name, window string, argv []string) error {
	if len(argv) < 2 {
		return fmt.Errorf("start tmux session %s: a command of one word would go through a shell", name)
	}
	words := []string{"new-session", "-d", "-s", name, "-n", window, "-x", "120", "-y", "36", "-c", "/", "--"}
	_, err := s.run(ctx, append(words, argv...))
	if e, ok := errors.AsType[*CommandError](err); ok && strings.HasPrefix(e.Text, "duplicate session") {
		return nil
	}
	return err
}

// Sessions returns the names of all sessions but our own.
func (s *Server) Sessions(ctx context.Context) (map[string]bool, error) {
	lines, err := s.run(ctx, []string{"list-sessions", "-F", "#{session_name}"})
	if err != nil {
		return nil, err
	}
	names := make(map[string]bool, len(lines))
	for _, name := range lines {
		if name != holder {
			names[name] = true
		}
	}
	return names, nil
}

// HasSession reports whether there is a session of that name.
func (s *Server) HasSession(ctx context.Context, name string) (bool, error) {
	_, err := s.run(ctx, []string{"has-session", "-t", "=" + name})
	if refused(err) {
		return false, nil
	}
	return err == nil, err
}

// KillSession ends a session; one that does not exist is not an error.
func (s *Server) KillSession(ctx context.Context, name string) error {
	_, err := s.run(ctx, []string{"kill-session", "-t", "=" + name})
	if refused(err) {
		return nil
	}
	return err
}

// Close lets go of the server. Sessions live on; without any the server ends.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	c := s.client
	s.client = nil
	s.mu.Unlock()
	if c != nil {
		c.close()
	}
}

// run carries out one command, over the control client where there is one.
func (s *Server) run(caller context.Context, words []string) ([]string, error) {
	ctx, cancel := context.WithTimeout(caller, s.timeout)
	defer cancel()
	out, err := s.overControl(ctx, words)
	if errors.Is(err, errGone) {
		// The server died under us. Our commands may be given twice: a session that
		// exists already is no error, nor is one that is gone.
		out, err = s.overControl(ctx, words)
	}
	if errors.Is(err, errGone) || errors.Is(err, errBare) {
		out, err = s.once(ctx, words)
	}
	if err == nil || refused(err) || errors.Is(err, ErrUnavailable) {
		return out, err
	}
	if caller.Err() != nil {
		return nil, caller.Err()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		s.fault()
		err = fmt.Errorf("no answer within %s", s.timeout)
	}
	return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// overControl carries out one command over the control client.
func (s *Server) overControl(ctx context.Context, words []string) ([]string, error) {
	c, err := s.connected(ctx)
	if err != nil {
		return nil, err
	}
	out, err := c.do(ctx, words)
	if errors.Is(err, errGone) || errors.Is(err, context.DeadlineExceeded) {
		s.drop(c)
	}
	return out, err
}

// once carries out one command as a process of its own.
func (s *Server) once(ctx context.Context, words []string) ([]string, error) {
	p := command(ctx, s.argv(plain(words)...))
	var stderr tailBuffer
	p.Stderr = &stderr
	out, err := p.Output()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if _, ok := errors.AsType[*exec.ExitError](err); ok {
		text := stderr.String()
		if serverless(text) {
			return nil, fmt.Errorf("%w: %s", ErrUnavailable, text)
		}
		return nil, &CommandError{Text: text}
	}
	if err != nil {
		return nil, fmt.Errorf("run tmux: %w", err)
	}
	return strings.FieldsFunc(string(out), func(r rune) bool { return r == '\n' }), nil
}

// plain protects a semicolon at the end of a word, which tmux would take from its
// command line as the end of the command.
func plain(words []string) []string {
	safe := make([]string, len(words))
	for i, w := range words {
		if rest, ok := strings.CutSuffix(w, ";"); ok {
			w = rest + `\;`
		}
		safe[i] = w
	}
	return safe
}

// serverless recognises what a tmux client says where there is no server to ask.
func serverless(text string) bool {
	for _, sign := range []string{"error connecting", "no server running", "server exited", "lost server", "server version"} {
		if strings.Contains(text, sign) {
			return true
		}
	}
	return false
}

// fault notes that the server did not answer, so the next calls need not wait.
func (s *Server) fault() {
	s.mu.Lock()
	s.rest = time.Now().Add(restAfterFault)
	s.mu.Unlock()
}

// argv is a tmux command line for our server.
func (s *Server) argv(words ...string) []string {
	return append([]string{s.path, "-S", s.socket, "-f", s.config, "-u"}, words...)
}

// command prepares a tmux client. Its environment is empty, because a client that
// starts the server hands its own on to every session. It has a session of its own,
// so a Ctrl-C meant for the service does not end it.
func command(ctx context.Context, argv []string) *exec.Cmd {
	p := exec.CommandContext(ctx, argv[0], argv[1:]...)
	p.Env = []string{}
	p.Dir = "/"
	p.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	p.WaitDelay = 500 * time.Millisecond // a server that was just started may hold stderr
	return p
}
