package runner_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/threadmill/threadmill/engine/rundir"
)

// connect opens a bare connection to the control socket.
func (g *rig) connect() (net.Conn, *bufio.Scanner) {
	g.t.Helper()
	_ = g.dial().Close() // it is there
	conn, err := net.Dial("unix", g.spec.Socket)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { _ = conn.Close() })
	return conn, bufio.NewScanner(conn)
}

func (g *rig) greet(conn net.Conn, hello rundir.Hello) {
	g.t.Helper()
	if err := json.NewEncoder(conn).Encode(hello); err != nil {
		g.t.Fatal(err)
	}
}

func TestGreetingIsChecked(t *testing.T) {
	t.Parallel()
	g := newRig(t, "sleep").start()
	for name, tc := range map[string]struct{ line, want string }{
		"another version":   {fmt.Sprintf(`{"version":99,"executionId":%q}`, g.spec.ExecutionID), "version 1 of the contract, not 99"},
		"another execution": {`{"version":1,"executionId":"other"}`, "another execution"},
		"nonsense":          {`hello`, ""},
		"an empty line":     {``, ""},
	} {
		conn, lines := g.connect()
		if _, err := fmt.Fprintln(conn, tc.line); err != nil {
			t.Fatal(err)
		}
		lines.Scan()
		if !strings.Contains(lines.Text(), tc.want) || tc.want == "" && lines.Text() != "" {
			t.Errorf("%s: %q", name, lines.Text())
		}
		if lines.Scan() {
			t.Errorf("%s: the connection goes on: %q", name, lines.Text())
		}
	}
	g.do(g.dial(), rundir.Command{Op: rundir.OpCancel})
	g.end()
}

func TestNonsenseInsteadOfACommand(t *testing.T) {
	t.Parallel()
	g := newRig(t, "sleep").start()
	conn, lines := g.connect()
	g.greet(conn, rundir.Hello{Version: rundir.Version, ExecutionID: g.spec.ExecutionID})
	lines.Scan()
	for _, line := range []string{`{"op":"ping"}`, `{"id":`} {
		if _, err := fmt.Fprintln(conn, line); err != nil {
			t.Fatal(err)
		}
		var rep rundir.Reply
		if !lines.Scan() || json.Unmarshal(lines.Bytes(), &rep) != nil || rep.Code != rundir.CodeInvalid {
			t.Errorf("%s: %q", line, lines.Text())
		}
	}
	if lines.Scan() {
		t.Errorf("the connection goes on: %q", lines.Text())
	}
	g.do(g.dial(), rundir.Command{Op: rundir.OpCancel})
	g.end()
}

// TestClientThatNeverReads sends commands and reads no replies: it loses its
// connection, and nobody else notices it.
func TestClientThatNeverReads(t *testing.T) {
	t.Parallel()
	g := newRig(t, "sleep").start()
	conn, _ := g.connect()
	g.greet(conn, rundir.Hello{Version: rundir.Version, ExecutionID: g.spec.ExecutionID})
	g.until("the connection is closed", func() bool {
		_, err := fmt.Fprintf(conn, `{"id":%q,"op":"%s"}`+"\n", rundir.NewID(), strings.Repeat("x", 10_000))
		return err != nil
	})
	g.do(g.dial(), rundir.Command{Op: rundir.OpCancel})
	g.end()
}
