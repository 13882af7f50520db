package web

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/threadmill/threadmill/bot/web/api"
	"github.com/threadmill/threadmill/engine"
)

// Options is what a server works with.
type Options struct {
	Engine      Engine
	Sessions    Sessions
	Token       string      // what clients must present, see [LoadToken]
	Listen      []string    // host:port addresses it is reached at
	PublicURL   string      // how people reach it; empty: only under Listen
	OpenMetrics bool        // serve /metrics without a token
	Version     api.Version // what /api/version answers
	Logger      *slog.Logger
	// Ready adds checks of what is around the engine to /readyz; may be nil.
	Ready func(context.Context) []engine.Check
}

// Server serves the HTTP API and the web page.
type Server struct {
	engine   Engine
	sessions Sessions
	token    string
	home     string // the page's address for people
	hosts    hosts
	version  api.Version
	ready    func(context.Context) []engine.Check
	log      *slog.Logger
	metrics  *meters
	handler  http.Handler

	stopping chan struct{} // closed at shutdown: streams end
	stopOnce sync.Once
	sockets  sync.WaitGroup // hijacked connections, which net/http no longer waits for
}

// New returns a server. It refuses options under which the API would be open to
// others.
func New(o Options) (*Server, error) {
	if len(o.Token) < minToken {
		return nil, errors.New("the API needs a token of at least 32 characters")
	}
	if o.Sessions == nil {
		return nil, errors.New("the web page needs a place to keep its sessions")
	}
	public, err := parsePublicURL(o.PublicURL)
	if err != nil {
		return nil, err
	}
	s := &Server{
		engine: o.Engine, sessions: o.Sessions, token: o.Token, home: homeOf(public, o.Listen), hosts: newHosts(o.Listen, public), version: o.Version, ready: o.Ready,
		log: o.Logger, metrics: newMeters(o.Version.Version), stopping: make(chan struct{}),
	}
	s.handler = s.guard(s.routes(o.OpenMetrics))
	return s, nil
}

func parsePublicURL(text string) (*url.URL, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // there is none
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("public_url " + text + ": it has to be http://HOST or https://HOST")
	}
	return u, nil
}

// Handler returns everything the server answers.
func (s *Server) Handler() http.Handler { return s.handler }

// The bounds of a connection. Streams and downloads lift the ones for reading and
// writing and bound each write instead.
const (
	headerTimeout  = 10 * time.Second
	requestTimeout = 30 * time.Second
	answerTimeout  = time.Minute
	idleTimeout    = 2 * time.Minute
	stopTimeout    = 10 * time.Second
	maxHeader      = 32 << 10
)

// Serve answers on ln until ctx ends. Then it takes no more requests, ends streams
// (their clients resume where they were), lets requests finish for a moment, and
// returns once nothing of it is left.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	// Requests must outlive the end of ctx for a moment: what they do is finished.
	base, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	srv := &http.Server{
		Handler: s.handler, BaseContext: func(net.Listener) context.Context { return base },
		ReadHeaderTimeout: headerTimeout, ReadTimeout: requestTimeout, WriteTimeout: answerTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	ended := make(chan error, 1)
	go func() {
		defer close(ended)
		ended <- srv.Serve(ln)
	}()
	var err error
	select {
	case err = <-ended: // the listener broke
	case <-ctx.Done():
	}
	err = errors.Join(err, s.shutdown(base, srv))
	end()
	s.sockets.Wait()
	for range ended {
		// It has to be waited for; what it says is told already, or that it was shut down.
	}
	return err
}

// Stop ends all streams. It is for servers that are not run by Serve.
func (s *Server) Stop() { s.stopOnce.Do(func() { close(s.stopping) }) }

func (s *Server) shutdown(ctx context.Context, srv *http.Server) error {
	s.Stop()
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	if err := srv.Shutdown(ctx); err != nil {
		return errors.Join(err, srv.Close())
	}
	return nil
}
