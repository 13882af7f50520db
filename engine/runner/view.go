package runner

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/proc"
	"github.com/threadmill/threadmill/engine/rundir"
)

const (
	// viewTail is how much of the recording a new pane begins with.
	viewTail = 128 << 10
	// viewPoll is how often the recording is looked at; a recording is for eyes.
	viewPoll = 100 * time.Millisecond
	// viewAnswer bounds how long the runner may take to answer what was typed.
	viewAnswer = 15 * time.Second
)

// View shows a run whose pane is gone in a new one: what was shown last, then what is
// shown next. Lines typed there go to the run's agent, Ctrl-C interrupts it. View ends
// with the run, or with its terminal, by itself: where it was started the hang-up
// signal may be ignored. The run does not notice it.
func View(ctx context.Context, o Options) error {
	spec, err := rundir.ReadSpec(o.Dir)
	if err != nil {
		return fmt.Errorf("read what to view: %w", err)
	}
	v := &viewer{ctx: ctx, dir: o.Dir, spec: spec, feed: newFeed()}
	screen := openScreen(o.In, o.Out, v, nil)
	defer screen.close()
	show, gone := func(text []byte) { _, _ = o.Out.Write(text) }, (chan struct{})(nil)
	if screen != nil {
		show, gone = screen.show, screen.gone
	}
	v.feed.start(show)
	defer v.feed.close(lastWords)
	return v.follow(gone)
}

// viewer is one run of [View].
type viewer struct {
	ctx  context.Context //nolint:containedctx // the keyboard's callbacks have none
	dir  string
	spec rundir.Spec
	feed *feed
	rest []byte // the beginning of a line of the pane
}

// follow passes the recording on until the run has ended, or gone is closed.
func (v *viewer) follow(gone <-chan struct{}) error {
	var cast *os.File
	defer func() {
		if cast != nil {
			_ = cast.Close()
		}
	}()
	ticker := time.NewTicker(viewPoll)
	defer ticker.Stop()
	var lines *recording
	for {
		over := v.over() // asked first: what is written before the end is shown
		if cast == nil {
			var err error
			if cast, err = openTail(filepath.Join(v.dir, rundir.CastFile)); err != nil {
				return err
			}
			lines = &recording{r: bufio.NewReader(cast)}
		}
		if cast != nil {
			lines.each(v.show)
		}
		if over {
			return nil
		}
		select {
		case <-ticker.C:
		case <-gone:
			return nil
		case <-v.ctx.Done():
			return nil
		}
	}
}

// over reports whether the run has ended, or its runner, or its files are gone.
func (v *viewer) over() bool {
	if _, ended, err := rundir.ReadResult(v.dir); err != nil || ended {
		return true
	}
	info, found, err := rundir.ReadInfo(v.dir)
	return err != nil || !found || !proc.Alive(info.Pid, info.StartTime)
}

// show passes on what was on the terminal, line by line.
func (v *viewer) show(text string) {
	v.rest = append(v.rest, strings.ReplaceAll(text, "\r\n", "\n")...)
	end := bytes.LastIndexByte(v.rest, '\n') + 1
	v.feed.add(v.rest[:end], 0)
	v.rest = append(v.rest[:0], v.rest[end:]...)
}

func (v *viewer) typed(line string) {
	v.do(rundir.Command{Op: rundir.OpMessage, Message: &agent.Message{Text: line, From: fromTerminal}})
}

func (v *viewer) interrupted() { v.do(rundir.Command{Op: rundir.OpInterrupt}) }

// do hands a command to the runner. Somebody is at the keyboard, so what goes wrong is
// said there and not tried again.
func (v *viewer) do(cmd rundir.Command) {
	cmd.ID, cmd.By = rundir.NewID(), fromTerminal
	if cmd.Message != nil {
		cmd.Message.ID = cmd.ID
	}
	ctx, cancel := context.WithTimeout(v.ctx, viewAnswer)
	defer cancel()
	reply, err := v.ask(ctx, cmd)
	note := replyNote(reply)
	if err != nil {
		note = "the run does not answer: " + err.Error() + "\n"
	}
	if note != "" {
		v.feed.add([]byte(styleDim+strings.TrimSpace(note)+styleReset+"\n"), 0)
	}
}

func (v *viewer) ask(ctx context.Context, cmd rundir.Command) (rundir.Reply, error) {
	client, _, err := rundir.Dial(ctx, v.spec.Socket, v.spec.ExecutionID)
	if err != nil {
		return rundir.Reply{}, err
	}
	defer client.Close()
	return client.Do(ctx, cmd)
}

// openTail opens a recording near its end; nil where there is none yet.
func openTail(path string) (*os.File, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // it may come
	}
	if err != nil {
		return nil, fmt.Errorf("open the recording: %w", err)
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = f.Seek(max(0, size-viewTail), io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the recording: %w", err), f.Close())
	}
	return f, nil
}

// recording reads a growing asciicast. A line that is cut at the beginning, or not
// complete yet, is no event.
type recording struct {
	r    *bufio.Reader
	part []byte
}

// each calls show for all output that is there by now.
func (c *recording) each(show func(text string)) {
	for {
		piece, err := c.r.ReadBytes('\n')
		c.part = append(c.part, piece...)
		if err != nil {
			return
		}
		if text, ok := castOutput(c.part); ok {
			show(text)
		}
		c.part = c.part[:0]
	}
}

// castOutput returns the text of an output event.
func castOutput(line []byte) (string, bool) {
	var event []any
	if json.Unmarshal(line, &event) != nil || len(event) != 3 || event[1] != "o" {
		return "", false
	}
	text, ok := event[2].(string)
	return text, ok
}
