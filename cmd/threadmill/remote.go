package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/threadmill/threadmill/bot/web"
	"github.com/threadmill/threadmill/bot/web/client"
	"github.com/threadmill/threadmill/cmd/threadmill/config"
	"github.com/threadmill/threadmill/engine"
)

// executionRef is what names an execution: its number, with or without #, or its id.
var executionRef = regexp.MustCompile(`^(#?[1-9][0-9]{0,17}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})$`)

// reference checks and normalises the name of an execution.
func reference(arg string) (string, error) {
	if !executionRef.MatchString(arg) {
		return "", usagef("%q is neither the number of an execution (as in 42) nor its id", clean(arg))
	}
	return strings.TrimPrefix(arg, "#"), nil
}

// remote is the body of a command that speaks to the service.
type remote func(ctx context.Context, c *client.Client, args []string) error

// calling makes a command's RunE of fn: it connects, ends with the first interrupt,
// and says how to get a service where there is none.
func (a *app) calling(fn remote) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		c, address, err := a.connect()
		if err != nil {
			return err
		}
		defer c.Close()
		err = fn(ctx, c, args)
		switch {
		case errors.Is(err, client.ErrNoServer):
			return fmt.Errorf("no Threadmill service answers at %s: start one with `threadmill serve`", address)
		case err != nil && ctx.Err() != nil && cmd.Context().Err() == nil:
			return errFailed // somebody pressed Ctrl-C and knows
		case engine.CodeOf(err) == engine.CodeUnauthorized:
			return fmt.Errorf("the service at %s does not take this token: set THREADMILL_TOKEN to the one in the file api-token of its data directory", address)
		}
		return err
	}
}

// connect finds the service and what proves who asks. It does not call it yet.
func (a *app) connect() (c *client.Client, address string, err error) {
	token := a.getenv("THREADMILL_TOKEN")
	named := cmp.Or(a.server, a.getenv("THREADMILL_SERVER"))
	if named != "" {
		if address, err = serverAddress(named, token); err != nil || token != "" {
			return client.New(address, token), address, err
		}
	}
	cfg, err := a.loadConfig()
	if err != nil {
		return nil, "", err
	}
	if named == "" {
		address = localAddress(cfg.Listen)
	}
	if token == "" {
		token, err = localToken(cfg.DataDir, named != "")
	}
	return client.New(address, token), address, err
}

// errNoToken says how to get at a service that is not the local one.
var errNoToken = errors.New("set THREADMILL_TOKEN to the service's token (the file api-token in its data directory)")

// serverAddress completes the address that somebody named. Without a token of its own
// it has to be on this machine, since the local one's must not be sent elsewhere.
func serverAddress(named, token string) (string, error) {
	address := named
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return "", usagef("%q is no address of a service, such as http://127.0.0.1:4100", clean(named))
	}
	if ip := net.ParseIP(u.Hostname()); token == "" && u.Hostname() != "localhost" && !ip.IsLoopback() {
		return "", errNoToken
	}
	return address, nil
}

func (a *app) loadConfig() (*config.Config, error) {
	return config.Load(a.config, a.environ)
}

// localAddress is where a service that listens there is reached from this machine.
func localAddress(listen string) string {
	host, port, found := strings.Cut(listen, ":")
	if found && (host == "" || host == "0.0.0.0") {
		listen = "127.0.0.1:" + port
	}
	return "http://" + strings.Replace(listen, "[::]", "[::1]", 1)
}

// localToken reads the token that the local service made. Where there is none yet the
// call goes out without and fails with what is really the matter.
func localToken(dataDir string, remote bool) (string, error) {
	token, err := web.ReadToken(dataDir)
	switch {
	case errors.Is(err, os.ErrNotExist) && remote:
		return "", errNoToken
	case errors.Is(err, os.ErrNotExist):
		return "", nil
	}
	return token, err
}
