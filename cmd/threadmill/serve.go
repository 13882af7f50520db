package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/threadmill/threadmill/bot/web"
	"github.com/threadmill/threadmill/bot/web/api"
	"github.com/threadmill/threadmill/cmd/threadmill/config"
	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/host"
	"github.com/threadmill/threadmill/storage"
	"github.com/threadmill/threadmill/templates"
	"github.com/threadmill/threadmill/templates/watch"
)

// stopTimeout is how long a service that cancels its executions at shutdown waits for
// them; the longest grace between SIGTERM and SIGKILL is part of it.
const stopTimeout = 30 * time.Second

func (a *app) serveCommand() *cobra.Command {
	var verbose bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the service",
		Long: `Run the service until SIGINT or SIGTERM. Executions go on without it and are taken up
again by the next one (unless engine.on_shutdown is cancel); a second signal ends the
service at once. SIGHUP, or a change of the files, reloads the configuration.`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "log more")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		level := slog.LevelInfo
		if verbose {
			level = slog.LevelDebug
		}
		log := slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: level}))
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		context.AfterFunc(ctx, stop) // a second signal has its default effect: the end, now
		return a.serve(ctx, log)
	}
	return cmd
}

// server is a running service: everything wired together, in the order in which it
// is taken apart again, from the last to the first.
type server struct {
	a      *app
	log    *slog.Logger
	lock   *storage.Lock
	listen net.Listener
	db     *storage.DB
	host   *host.Host
	engine *engine.Engine
	web    *web.Server

	mu  sync.Mutex
	cfg *config.Config
}

// serve runs the service until ctx ends.
func (a *app) serve(ctx context.Context, log *slog.Logger) (err error) {
	s := &server{a: a, log: log}
	defer func() { err = errors.Join(err, s.close()) }()
	if s.cfg, err = a.loadConfig(); err != nil {
		return err
	}
	if err := s.cfg.CheckSecrets(); err != nil {
		return err
	}
	if err := s.open(ctx); err != nil {
		return err
	}
	if _, err := s.host.Check(ctx); err != nil { // and the first run does not wait for tmux
		s.log.WarnContext(ctx, "runs get no terminal", "reason", err)
	}
	if err := s.engine.Start(ctx); err != nil {
		return fmt.Errorf("take up what was running: %w", err)
	}
	link, err := s.web.NewLink(ctx)
	if err != nil {
		return fmt.Errorf("make a link for the browser: %w", err)
	}
	s.greet(link)
	return s.work(ctx)
}

// open readies everything; nothing runs yet.
func (s *server) open(ctx context.Context) (err error) {
	data := s.cfg.DataDir
	if s.lock, err = storage.AcquireLock(data); err != nil {
		return err
	}
	if s.listen, err = (&net.ListenConfig{}).Listen(ctx, "tcp", s.cfg.Listen); err != nil {
		return fmt.Errorf("listen on %s: %w; set listen in the configuration to another address", s.cfg.Listen, err)
	}
	if err := os.MkdirAll(s.cfg.Scratch(), 0o700); err != nil {
		return fmt.Errorf("make the scratch project: %w", err)
	}
	if s.db, err = storage.Open(ctx, data, storage.WithLock(s.lock)); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the runner's binary: %w", err)
	}
	s.host, err = host.New(host.Options{Binary: self, Data: data, RunDir: s.a.runDir(data), Path: s.a.getenv("PATH"), Logger: s.log})
	if err != nil {
		return err
	}
	s.engine = engine.New(engine.Options{
		Store: s.db, Host: s.host, Adapters: adapters(), Environ: s.a.variables(), Logger: s.log,
	})
	if err := s.put(s.cfg, self); err != nil {
		return err
	}
	return s.openWeb()
}

func (s *server) openWeb() error {
	token, err := web.LoadToken(s.cfg.DataDir)
	if err != nil {
		return err
	}
	b := thisBuild()
	s.web, err = web.New(web.Options{
		Engine: s.engine, Sessions: s.db, Token: token, Listen: []string{s.listen.Addr().String(), s.cfg.Listen}, PublicURL: s.cfg.PublicURL, Logger: s.log,
		Version: api.Version{Version: b.Version, Commit: b.Commit, Go: b.Go, Contract: b.Contract, RunDir: s.a.runDir(s.cfg.DataDir)},
	})
	return err
}

// put brings a configuration into force: its agents and the capabilities of its folders.
func (s *server) put(cfg *config.Config, self string) error {
	set, err := templates.Load(cfg.Capabilities)
	if err != nil {
		return err
	}
	narrowed, problems := cfg.Narrow()
	if err := problems.OrNil(); err != nil {
		s.log.Warn("a repository's own file disables its agent", "error", err)
	}
	catalog, err := narrowed.Catalog(set)
	if err != nil {
		return err
	}
	if err := cfg.CheckNamed(catalog); err != nil {
		s.log.Warn("the configuration names what there is not", "error", err)
	}
	for id, a := range catalog.Agents {
		catalog.Agents[id] = ownProgram(a, self)
	}
	return s.engine.SetCatalog(catalog)
}

// work serves and watches the configuration until ctx ends, then stops the engine.
func (s *server) work(ctx context.Context) error {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	trigger := make(chan struct{})
	w := &watch.Watcher{Paths: s.watched, Reload: s.reload, Trigger: trigger, Log: s.log}

	inner, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { w.Run(inner) })
	wg.Go(func() { pass(inner, hangup, trigger) })
	err := s.web.Serve(inner, s.listen)
	cancel()
	wg.Wait()
	s.log.InfoContext(ctx, "stopping")
	patient, give := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer give()
	return errors.Join(err, s.engine.Stop(patient))
}

// pass makes a trigger of each signal.
func pass(ctx context.Context, signals <-chan os.Signal, trigger chan<- struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-signals:
		}
		select {
		case <-ctx.Done():
			return
		case trigger <- struct{}{}:
		}
	}
}

func (s *server) watched() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cfg.WatchPaths()
}

// reload reads the configuration again. A bad one changes nothing and is logged.
func (s *server) reload(ctx context.Context) error {
	next, err := s.a.loadConfig()
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := s.put(next, self); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if keys := s.cfg.NeedsRestart(next); len(keys) > 0 {
		s.log.WarnContext(ctx, "some settings come into force with the next start only", "settings", strings.Join(keys, ", "))
	}
	s.log.InfoContext(ctx, "configuration in force", "file", cmp.Or(next.Path, "none"), "agents", len(next.Agents))
	next.DataDir, next.Listen, next.PublicURL = s.cfg.DataDir, s.cfg.Listen, s.cfg.PublicURL
	s.cfg = next
	return nil
}

// close takes apart what open made, in reverse.
func (s *server) close() error {
	var errs []error
	if s.host != nil {
		errs = append(errs, s.host.Close())
	}
	if s.db != nil {
		errs = append(errs, s.db.Close())
	}
	if s.listen != nil {
		if err := s.listen.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Release())
	}
	return errors.Join(errs...)
}

// greet says where the service is and what can be done next.
func (s *server) greet(link api.Link) {
	source := "no configuration file: the demo agent and a few commands in a scratch project"
	if s.cfg.Path != "" {
		source = s.cfg.Path
	}
	fmt.Fprintf(s.a.out, `Threadmill %s is running.

  Configuration  %s
  Data           %s
  API            http://%s/api (token in %s)

Open this in a browser; it signs in once, for %s (%[8]s link makes another):

  %[7]s

In another terminal, in the same directory:

  %[8]s run demo "say hello; lines 5 300ms; say done"
  %[8]s run list-files
  %[8]s ps
  %[8]s doctor

`, thisBuild().Version, source, s.cfg.DataDir, s.listen.Addr(), filepath.Join(s.cfg.DataDir, web.TokenFile), time.Until(link.ExpiresAt).Round(time.Minute), link.URL,
		s.a.invocation())
}

// runDir is where sockets are: short, private, and the same at the next start. The
// session's XDG_RUNTIME_DIR is none of it: it goes at logout, and runs do not.
func (a *app) runDir(data string) string {
	base := a.getenv("RUNTIME_DIRECTORY") // what systemd made for the service
	if base == "" || !filepath.IsAbs(base) {
		base = "/tmp" // sticky, so nobody can take away what is ours in it; a folder between could be another's
	}
	return host.RunDirFor(base, data)
}
