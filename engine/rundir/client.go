package rundir

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// MaxControlLine bounds a line on the control socket, in both directions.
const MaxControlLine = 16 << 20

// controlWait bounds the handshake and each write on the control socket where the
// caller's context sets no earlier deadline.
const controlWait = 10 * time.Second

// ErrVersion is wrapped by [Dial] when the runner speaks another version of this
// contract.
var ErrVersion = errors.New("the runner and this binary speak different versions")

// ErrClosed is wrapped by what a [Client] returns once its connection has ended. The
// outcome of a command that was under way is unknown; the same one may be sent again.
var ErrClosed = errors.New("the connection to the runner has ended")

// Client is a control connection to a runner. It may be used by many goroutines at
// once; replies are matched by the commands' ids.
type Client struct {
	conn net.Conn
	done chan struct{} // closed when the reader has ended

	writing sync.Mutex

	mu      sync.Mutex
	waiting map[string][]chan Reply
	err     error // why the connection ended
}

// Dial connects to the runner of an execution and shakes hands. It fails with
// ErrVersion where the runner is of another version, and where the runner at that
// socket belongs to another execution.
func Dial(ctx context.Context, socket, executionID string) (*Client, Hello, error) {
	ctx, cancel := context.WithTimeout(ctx, controlWait)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, Hello{}, fmt.Errorf("connect to the runner: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	lines := newControlScanner(conn)
	hello, err := shakeHands(conn, lines, executionID)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = conn.Close()
		return nil, hello, fmt.Errorf("shake hands with the runner: %w", err)
	}
	c := &Client{conn: conn, done: make(chan struct{}), waiting: map[string][]chan Reply{}}
	go c.read(lines)
	return c, hello, nil
}

func shakeHands(conn net.Conn, lines *bufio.Scanner, executionID string) (Hello, error) {
	var hello Hello
	line, err := controlLine(Hello{Version: Version, ExecutionID: executionID})
	if err != nil {
		return hello, err
	}
	if _, err := conn.Write(line); err != nil {
		return hello, err
	}
	if err := scanLine(lines, &hello); err != nil {
		return hello, err
	}
	switch {
	case hello.Version != Version:
		return hello, fmt.Errorf("%w: %d and %d", ErrVersion, hello.Version, Version)
	case hello.Error != "":
		return hello, errors.New(hello.Error)
	case hello.ExecutionID != executionID:
		return hello, fmt.Errorf("it runs execution %s, not %s", hello.ExecutionID, executionID)
	}
	return hello, nil
}

// Do sends a command and waits for its reply. An error means that the outcome is
// unknown; the same command may be sent again, here or over a new connection.
func (c *Client) Do(ctx context.Context, cmd Command) (Reply, error) {
	reply := make(chan Reply, 1)
	if err := c.expect(cmd.ID, reply); err != nil {
		return Reply{}, err
	}
	defer c.forget(cmd.ID, reply)
	if err := c.send(cmd); err != nil {
		return Reply{}, fmt.Errorf("send a command to the runner: %w", err)
	}
	select {
	case r := <-reply:
		return r, nil
	case <-c.done:
		return c.lastReply(reply)
	case <-ctx.Done():
		return Reply{}, fmt.Errorf("wait for the runner's reply: %w", context.Cause(ctx))
	}
}

// Done is closed when the connection has ended.
func (c *Client) Done() <-chan struct{} { return c.done }

// Close ends the connection and waits for its reader. It may be called twice.
func (c *Client) Close() error {
	err := c.conn.Close()
	<-c.done
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// lastReply prefers a reply that arrived together with the end of the connection.
func (c *Client) lastReply(reply chan Reply) (Reply, error) {
	select {
	case r := <-reply:
		return r, nil
	default:
		return Reply{}, c.ended()
	}
}

func (c *Client) ended() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *Client) expect(id string, reply chan Reply) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	c.waiting[id] = append(c.waiting[id], reply)
	return nil
}

func (c *Client) forget(id string, reply chan Reply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, w := range c.waiting[id] {
		if w == reply {
			c.waiting[id] = append(c.waiting[id][:i:i], c.waiting[id][i+1:]...)
			break
		}
	}
	if len(c.waiting[id]) == 0 {
		delete(c.waiting, id)
	}
}

func (c *Client) send(cmd Command) error {
	line, err := controlLine(cmd)
	if err != nil {
		return err
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	_ = c.conn.SetWriteDeadline(time.Now().Add(controlWait))
	if _, err = c.conn.Write(line); err != nil {
		_ = c.conn.Close() // half a line may be out: nothing after it would be understood
	}
	return err
}

func (c *Client) read(lines *bufio.Scanner) {
	defer close(c.done)
	defer c.conn.Close()
	var err error
	for err == nil {
		var r Reply
		if err = scanLine(lines, &r); err == nil {
			c.deliver(r)
		}
	}
	c.mu.Lock()
	c.err = fmt.Errorf("%w: %w", ErrClosed, err)
	c.mu.Unlock()
}

// deliver hands a reply to whoever waits for its id first.
func (c *Client) deliver(r Reply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w := c.waiting[r.ID]; len(w) > 0 {
		w[0] <- r // has room for the one reply
		c.waiting[r.ID] = w[1:]
	}
}

func newControlScanner(conn net.Conn) *bufio.Scanner {
	s := bufio.NewScanner(conn)
	s.Buffer(make([]byte, 0, 4<<10), MaxControlLine)
	return s
}

// scanLine reads the next line as JSON.
func scanLine(s *bufio.Scanner, v any) error {
	if !s.Scan() {
		if err := s.Err(); err != nil {
			return err
		}
		return errors.New("end of stream")
	}
	return json.Unmarshal(s.Bytes(), v)
}

// controlLine encodes v as one line.
func controlLine(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	if len(b) >= MaxControlLine {
		return nil, fmt.Errorf("a line of %d bytes is longer than the limit of %d", len(b), MaxControlLine)
	}
	return append(b, '\n'), nil
}
