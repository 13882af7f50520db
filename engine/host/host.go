// Package host is this machine as a place where executions run: it starts runners in
// tmux sessions, follows the files they write, delivers commands to them, finds them
// again after a restart, and ends what is left of them. It implements engine.Host.
//
// It must not know what an entry means, what a status is or who asked for a run; it
// decides nothing that the engine could decide from what it reports.
package host

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/host/tmux"
	"github.com/threadmill/threadmill/engine/rundir"
)

// Options says where things are. Every path is absolute.
type Options struct {
	Binary   string // of threadmill, which is started as the runner
	Data     string // the data directory
	RunDir   string // for sockets and secrets; short, see [RunDirFor]
	TmuxPath string // of tmux; empty: looked up in Path
	Path     string // the directories to look for tmux in, as in the variable PATH
	Logger   *slog.Logger
}

// Host starts and follows runners on this machine. All methods may be called
// concurrently.
type Host struct {
	o        Options
	log      *slog.Logger
	watcher  *watcher
	links    links
	children children
	indexes  indexes
	bounds   bounds

	preparing sync.Mutex // held while a launch writes its files

	mu       sync.Mutex
	server   *tmux.Server // nil until tmux was found
	sessions map[string]bool
	listed   time.Time // when sessions was read
}

// bounds are the times that the host allows; tests make them shorter.
type bounds struct {
	start time.Duration // from Follow until a runner must have shown up
	hello time.Duration // for a runner to answer
	panes time.Duration // between looks at whether panes are there
}

var _ engine.Host = (*Host)(nil)

// New readies the run directory and starts to watch. It starts no tmux server.
func New(o Options) (*Host, error) {
	for _, path := range []string{o.Binary, o.Data, o.RunDir} {
		if !filepath.IsAbs(path) {
			return nil, fmt.Errorf("start the host: %q is not an absolute path", path)
		}
	}
	if err := checkBinary(o.Binary); err != nil {
		return nil, err
	}
	if err := prepareRunDir(o.RunDir); err != nil {
		return nil, err
	}
	if err := dropStaleSecrets(o.RunDir); err != nil {
		return nil, err
	}
	h := &Host{
		o: o, log: o.Logger,
		bounds: bounds{start: 15 * time.Second, hello: time.Second, panes: 2 * time.Second},
	}
	h.watcher = newWatcher(o.Logger, h.children.reap)
	return h, nil
}

// Close lets go of everything and waits for the host's own goroutines. Runs go on.
func (h *Host) Close() error {
	h.watcher.close()
	h.links.close()
	h.mu.Lock()
	server := h.server
	h.mu.Unlock()
	if server != nil {
		server.Close()
	}
	return nil
}

// dir is where the execution has its files. It refuses an id that is not one of
// ours, so no id leads out of the data directory.
func (h *Host) dir(id string) (string, error) {
	return rundir.Dir(h.o.Data, id)
}

// tmux returns the server, or nil where tmux is not installed. A missing tmux is
// looked for again, so installing it needs no restart.
func (h *Host) tmux() *tmux.Server {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.server == nil {
		if path := h.findTmux(); path != "" {
			h.server = tmux.New(tmux.Options{Path: path, Dir: h.o.RunDir, Logger: h.log})
		}
	}
	return h.server
}

func (h *Host) findTmux() string {
	candidates := []string{h.o.TmuxPath}
	if h.o.TmuxPath == "" {
		candidates = candidates[:0]
		for _, dir := range filepath.SplitList(h.o.Path) {
			candidates = append(candidates, filepath.Join(dir, "tmux"))
		}
	}
	for _, path := range candidates {
		if filepath.IsAbs(path) && checkBinary(path) == nil {
			return path
		}
	}
	return ""
}

// checkBinary reports why a program cannot be started.
func checkBinary(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%s does not exist", path)
	case err != nil:
		return fmt.Errorf("look at %s: %w", path, err)
	case info.IsDir() || info.Mode()&0o111 == 0:
		return fmt.Errorf("%s is not an executable file", path)
	}
	return nil
}

// session is the name of an execution's tmux session. It follows from the id alone,
// so it can be found again without any file.
func session(id string) string { return "tm-" + id }

// AttachArgv is the command that shows an execution's session on a terminal; ok is
// false where there is no tmux.
func (h *Host) AttachArgv(id string, readOnly bool) (argv []string, ok bool) {
	server := h.tmux()
	if server == nil {
		return nil, false
	}
	return server.AttachArgv(session(id), readOnly), true
}
