package tmux

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
)

// errGone means that the control client ended before it answered: whether the
// command was carried out is unknown.
var errGone = errors.New("the connection to tmux was lost")

// maxLine bounds a line of the control protocol; a longer one is not tmux speaking.
const maxLine = 1 << 20

// readyMark is printed by the last command of the greeting.
const readyMark = "threadmill-ready"

// block is the answer to one command.
type block struct {
	lines  []string
	failed bool
	ours   bool // answers a line that we wrote, not the command line of the client
}

// control is a tmux client in control mode: lines in, blocks out, in order. Its
// output is read without pause, also between commands: tmux keeps in memory what a
// client does not read, without bound.
type control struct {
	process *exec.Cmd
	in, out *os.File
	stderr  *tailBuffer
	ready   chan block    // the answer to the client's own command line
	synced  chan struct{} // closed at readyMark: from then on each command has one answer
	ended   chan struct{} // nothing will be answered any more
	reading sync.WaitGroup

	mu      sync.Mutex
	waiting []chan block
	closed  bool
}

// dial starts a control client with the given command line. It returns at once; the
// answer to that command line is the first thing on ready.
func dial(ctx context.Context, argv []string) (*control, error) {
	inR, inW, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start tmux: %w", err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start tmux: %w", err), inR.Close(), inW.Close())
	}
	// The client serves later calls too, so it does not end with this one's context.
	p := command(context.WithoutCancel(ctx), argv)
	p.Stdin, p.Stdout = inR, outW
	c := &control{
		process: p, in: inW, out: outR, stderr: &tailBuffer{},
		ready: make(chan block, 1), synced: make(chan struct{}), ended: make(chan struct{}),
	}
	p.Stderr = c.stderr
	err = p.Start()
	err = errors.Join(err, inR.Close(), outW.Close())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start tmux: %w", err), inW.Close(), outR.Close())
	}
	c.reading.Go(c.read)
	return c, nil
}

// read hands each block to whoever waits for it, until the client ends.
func (c *control) read() {
	defer close(c.ended)
	r := bufio.NewReader(c.out)
	for synced := false; ; {
		b, err := readBlock(r)
		if err != nil {
			return
		}
		switch {
		case !b.ours:
			select {
			case c.ready <- b:
			default: // a hook's; nobody asked
			}
		case synced:
			c.answer(b)
		case slices.Equal(b.lines, []string{readyMark}):
			synced = true
			close(c.synced)
		}
	}
}

// answer gives a block to the one who has waited longest.
func (c *control) answer(b block) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) > 0 {
		c.waiting[0] <- b // has room for it
		c.waiting = c.waiting[1:]
	}
}

// do runs one command and returns the lines it printed.
func (c *control) do(ctx context.Context, words []string) ([]string, error) {
	answer := make(chan block, 1)
	if err := c.write(ctx, quote(words)+"\n", answer); err != nil {
		return nil, err
	}
	select {
	case b := <-answer:
		return b.result()
	case <-c.ended:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select { // the answer may have come just before the end
	case b := <-answer:
		return b.result()
	default:
		return nil, errGone
	}
}

// write queues the waiter (nil: none) and the line in one step, so answers find their
// waiters by order alone.
func (c *control) write(ctx context.Context, line string, answer chan block) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errGone
	}
	// A server that is stopped does not read; the pipe would block us for ever.
	deadline, _ := ctx.Deadline()
	if err := c.in.SetWriteDeadline(deadline); err != nil {
		return fmt.Errorf("%w: %w", errGone, err)
	}
	if _, err := io.WriteString(c.in, line); err != nil {
		return fmt.Errorf("%w: %w", errGone, err)
	}
	if answer != nil {
		c.waiting = append(c.waiting, answer)
	}
	return nil
}

// close ends the client and waits for it. The server may be stopped and hold both
// pipes open, so nothing here depends on it.
func (c *control) close() {
	c.mu.Lock()
	already := c.closed
	c.closed = true
	c.mu.Unlock()
	if !already {
		_ = c.in.Close() // end of input: the client detaches by itself
		kill := time.AfterFunc(200*time.Millisecond, func() {
			_ = c.process.Process.Kill()
			_ = c.out.Close() // ends read
		})
		_ = c.process.Wait()
		kill.Stop()
		_ = c.out.Close()
	}
	c.reading.Wait()
}

// result turns a block into what do returns.
func (b block) result() ([]string, error) {
	if b.failed {
		return nil, &CommandError{Text: strings.Join(b.lines, "\n")}
	}
	return b.lines, nil
}

// readBlock reads on to the end of the next block, skipping notifications:
//
//	%begin TIME NUMBER FLAGS
//	…
//	%end TIME NUMBER FLAGS      or %error …
func readBlock(r *bufio.Reader) (block, error) {
	var id []byte
	var b block
	size := 0
	for {
		line, err := readLine(r)
		if err != nil {
			return block{}, err
		}
		word, rest, _ := bytes.Cut(line, []byte(" "))
		switch {
		case id == nil && string(word) == "%begin":
			id = bytes.Clone(rest)
			b.ours = bytes.HasSuffix(rest, []byte(" 1"))
		case id == nil: // a notification
		case bytes.Equal(rest, id) && (string(word) == "%end" || string(word) == "%error"):
			b.failed = string(word) == "%error"
			return b, nil
		default:
			if size += len(line); size > maxLine {
				return block{}, fmt.Errorf("read from tmux: answer longer than %d bytes", maxLine)
			}
			b.lines = append(b.lines, string(line))
		}
	}
}

// readLine reads a line of bounded length, without its end.
func readLine(r *bufio.Reader) ([]byte, error) {
	var long []byte
	for {
		part, err := r.ReadSlice('\n')
		switch {
		case err == nil && long == nil:
			return bytes.TrimSuffix(part, []byte("\n")), nil
		case err == nil:
			return bytes.TrimSuffix(append(long, part...), []byte("\n")), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
		if long = append(long, part...); len(long) > maxLine {
			return nil, fmt.Errorf("read from tmux: line longer than %d bytes", maxLine)
		}
	}
}

// tailBuffer keeps the last thing that a client said on stderr, for the error.
type tailBuffer struct {
	mu   sync.Mutex
	text []byte
}

// Write keeps the last kilobyte.
func (t *tailBuffer) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if extra := len(t.text) - 1024; extra > 0 {
		t.text = t.text[extra:]
	}
	return len(p), nil
}

// String returns what was kept, on one line.
func (t *tailBuffer) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(strings.Fields(string(t.text)), " ")
}
