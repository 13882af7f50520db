package rundir_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/threadmill/threadmill/engine/rundir"
)

// fakeRunner answers one connection with a hello and then as the test says.
func fakeRunner(t *testing.T, hello rundir.Hello, serve func(lines *bufio.Scanner, conn net.Conn)) (socket string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "tm") //nolint:usetesting // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	socket = filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var ended sync.WaitGroup
	ended.Go(func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		lines := bufio.NewScanner(conn)
		lines.Buffer(nil, rundir.MaxControlLine)
		if lines.Scan() {
			reply(t, conn, hello)
			serve(lines, conn)
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		ended.Wait()
		_ = os.RemoveAll(dir)
	})
	return socket
}

func reply(t *testing.T, conn net.Conn, v any) {
	t.Helper()
	b, err := json.Marshal(v)
	if err == nil {
		_, err = conn.Write(append(b, '\n'))
	}
	if err != nil {
		t.Error(err)
	}
}

func untilHangUp(lines *bufio.Scanner, _ net.Conn) {
	for lines.Scan() {
	}
}

func dialContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

var good = rundir.Hello{Version: rundir.Version, ExecutionID: "x", Pid: 7, LastSeq: 3}

func TestDial(t *testing.T) {
	t.Parallel()
	c, hello, err := rundir.Dial(dialContext(t), fakeRunner(t, good, untilHangUp), "x")
	if err != nil || hello != good {
		t.Fatalf("%+v, %v", hello, err)
	}
	for range 2 {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := c.Do(dialContext(t), rundir.Command{ID: "1"}); !errors.Is(err, rundir.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
}

func TestDialRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		hello rundir.Hello
		is    error
		text  string
	}{
		"another version":   {rundir.Hello{Version: 99, ExecutionID: "x", Error: "no"}, rundir.ErrVersion, "99"},
		"another execution": {rundir.Hello{Version: rundir.Version, ExecutionID: "y"}, nil, "y"},
		"refused":           {rundir.Hello{Version: rundir.Version, ExecutionID: "x", Error: "go away"}, nil, "go away"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := rundir.Dial(dialContext(t), fakeRunner(t, tc.hello, untilHangUp), "x")
			if err == nil || tc.is != nil && !errors.Is(err, tc.is) || !strings.Contains(err.Error(), tc.text) {
				t.Error(err)
			}
		})
	}
}

func TestDialNobody(t *testing.T) {
	t.Parallel()
	_, _, err := rundir.Dial(dialContext(t), filepath.Join(t.TempDir(), "s"), "x")
	if !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func TestDialSilentRunner(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, _, err := rundir.Dial(ctx, l.Addr().String(), "x"); err == nil {
		t.Error("no error")
	}
}

// TestDoMatchesReplies answers a hundred commands in the opposite order.
func TestDoMatchesReplies(t *testing.T) {
	t.Parallel()
	const n = 100
	socket := fakeRunner(t, good, func(lines *bufio.Scanner, conn net.Conn) {
		var ids []string
		for len(ids) < n && lines.Scan() {
			var cmd rundir.Command
			if err := json.Unmarshal(lines.Bytes(), &cmd); err != nil {
				t.Error(err)
			}
			ids = append(ids, cmd.ID)
		}
		for _, id := range slices.Backward(ids) {
			reply(t, conn, rundir.Reply{ID: id, OK: true, Error: "re " + id})
		}
		untilHangUp(lines, conn)
	})
	c, _, err := rundir.Dial(dialContext(t), socket, "x")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var asked sync.WaitGroup
	for i := range n {
		asked.Go(func() {
			id := fmt.Sprint("id-", i/2) // each twice at the same time
			rep, err := c.Do(dialContext(t), rundir.Command{ID: id, Op: rundir.OpPing})
			if err != nil || rep.ID != id || rep.Error != "re "+id {
				t.Errorf("%s: %+v, %v", id, rep, err)
			}
		})
	}
	asked.Wait()
}

func TestDoWhenTheRunnerDies(t *testing.T) {
	t.Parallel()
	socket := fakeRunner(t, good, func(lines *bufio.Scanner, conn net.Conn) {
		lines.Scan()
		_, _ = conn.Write([]byte(`{"id":"1","ok":tr`))
	})
	c, _, err := rundir.Dial(dialContext(t), socket, "x")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Do(dialContext(t), rundir.Command{ID: "1"}); !errors.Is(err, rundir.ErrClosed) {
		t.Error(err)
	}
	<-c.Done()
}

func TestDoGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	c, _, err := rundir.Dial(dialContext(t), fakeRunner(t, good, untilHangUp), "x")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := c.Do(ctx, rundir.Command{ID: "1"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestDoRefusesHugeCommands(t *testing.T) {
	t.Parallel()
	socket := fakeRunner(t, good, func(lines *bufio.Scanner, conn net.Conn) {
		for lines.Scan() {
			reply(t, conn, rundir.Reply{ID: "small", OK: true})
		}
	})
	c, _, err := rundir.Dial(dialContext(t), socket, "x")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	huge := rundir.Command{ID: "huge", By: strings.Repeat("x", rundir.MaxControlLine)}
	if _, err := c.Do(dialContext(t), huge); err == nil || errors.Is(err, rundir.ErrClosed) {
		t.Error(err)
	}
	if rep, err := c.Do(dialContext(t), rundir.Command{ID: "small"}); err != nil || !rep.OK {
		t.Errorf("after it: %+v, %v", rep, err)
	}
}
