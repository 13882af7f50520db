package tmux

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// errBare means that there is no control client to be had for now, although tmux
// may well work.
var errBare = errors.New("tmux gives no control client")

// The pauses between attempts to connect. A server that is about to end still holds
// its socket and refuses newcomers, for some milliseconds.
const (
	firstPause = 10 * time.Millisecond
	lastPause  = 200 * time.Millisecond
	connectFor = 1500 * time.Millisecond
	bareForNow = 10 * time.Second
)

// connected returns the control client, starting it (and the server) where needed.
func (s *Server) connected(ctx context.Context) (*control, error) {
	if c, err := s.current(); c != nil || err != nil {
		return c, err
	}
	select {
	case s.connecting <- struct{}{}:
		defer func() { <-s.connecting }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if c, err := s.current(); c != nil || err != nil { // somebody else did it meanwhile
		return c, err
	}
	c, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	return c, s.adopt(c)
}

// current is the live control client, or why there can be none right now.
func (s *Server) current() (*control, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	switch {
	case s.closed:
		return nil, fmt.Errorf("%w: closed", ErrUnavailable)
	case now.Before(s.rest):
		return nil, fmt.Errorf("%w: it did not answer a moment ago", ErrUnavailable)
	case s.client != nil:
		return s.client, nil
	case now.Before(s.bare):
		return nil, errBare
	}
	return nil, nil
}

// adopt makes c the client of all calls, unless the server was closed meanwhile.
func (s *Server) adopt(c *control) error {
	s.mu.Lock()
	closed := s.closed
	if !closed {
		s.client = c
	}
	s.mu.Unlock()
	if closed {
		c.close()
		return fmt.Errorf("%w: closed", ErrUnavailable)
	}
	return nil
}

// drop lets go of a client that is of no use any more.
func (s *Server) drop(c *control) {
	s.mu.Lock()
	if s.client == c {
		s.client = nil
	}
	s.mu.Unlock()
	c.close()
}

// connect tries until it has a working client or it is clear that it will have none.
func (s *Server) connect(ctx context.Context) (*control, error) {
	if err := writeConfig(s.config); err != nil {
		return nil, err
	}
	until := time.Now().Add(connectFor)
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		c, err := s.attempt(ctx)
		if err == nil {
			return c, nil
		}
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
			return nil, err
		}
		if time.Now().After(until) {
			s.log.WarnContext(ctx, "no tmux control client, starting a client for each command", "error", err)
			s.mu.Lock()
			s.bare = time.Now().Add(bareForNow)
			s.mu.Unlock()
			return nil, errBare
		}
		if err := wait(ctx, pause); err != nil {
			return nil, err
		}
	}
}

// attempt starts one client and readies it.
func (s *Server) attempt(ctx context.Context) (*control, error) {
	// Two words, so that tmux runs cat itself; it waits on a terminal nobody writes to.
	c, err := dial(ctx, s.argv("-C", "new-session", "-A", "-s", holder, "-x", "20", "-y", "5", "cat", "-"))
	if err != nil {
		return nil, err
	}
	if err := s.greet(ctx, c); err != nil {
		c.close()
		if text := c.stderr.String(); text != "" {
			err = fmt.Errorf("%w: %s", err, text)
		}
		return nil, err
	}
	return c, nil
}

// greet waits for the client to be attached and sets it up.
func (s *Server) greet(ctx context.Context, c *control) error {
	select {
	case b := <-c.ready:
		if _, err := b.result(); err != nil {
			return err
		}
	case <-c.ended:
		return errGone
	case <-ctx.Done():
		return ctx.Err()
	}
	// The configuration's commands are answered too, one by one, so our counting begins
	// only after a mark of our own. What is refused (an option that this version does not
	// have) is left out.
	for _, words := range [][]string{
		{"source-file", s.config},
		{"set-option", "-t", "=" + holder + ":", "destroy-unattached", "on"},
		{"refresh-client", "-f", "no-output"},
		{"display-message", "-p", readyMark},
	} {
		if err := c.write(ctx, quote(words)+"\n", nil); err != nil {
			return err
		}
	}
	select {
	case <-c.synced:
		return nil
	case <-c.ended:
		return errGone
	case <-ctx.Done():
		return ctx.Err()
	}
}

// wait returns after d, or earlier with the error of ctx.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
