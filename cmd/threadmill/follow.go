package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/threadmill/threadmill/bot/web/api"
	"github.com/threadmill/threadmill/bot/web/client"
	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/agent"
)

// watcher shows what an execution's log stream says.
type watcher struct {
	app    *app
	number int64
	once   bool // it ends with its turn: that it is idle for a moment is no news
	quiet  bool // say nothing of the log
	raw    bool // as the log file has it: with prefixes, all to standard output

	activity agent.Activity // last seen
	lost     bool           // the service is away, and that was said
	end      engine.Execution
}

func (w *watcher) handlers() client.Handlers {
	return client.Handlers{Status: w.status, Log: w.log, Done: w.done, Lost: w.away}
}

// done keeps how the execution ended.
func (w *watcher) done(e api.DoneEvent) error {
	w.end = engine.Execution{Number: w.number, Status: e.Status, Reason: e.Reason, Error: e.Error, ExitCode: e.ExitCode}
	return nil
}

// away says once that the service went away: silence would look like a hanging run.
func (w *watcher) away(error) {
	if w.lost {
		return
	}
	w.lost = true
	fmt.Fprintf(w.app.err, "The service is away; #%d goes on, and so does this when it is back.\n", w.number)
}

// status tells people when the agent needs them, because a run that waits in silence
// looks like one that hangs.
func (w *watcher) status(e api.StatusEvent) error {
	changed := e.Activity != w.activity
	w.activity, w.lost = e.Activity, false
	if !changed || w.quiet {
		return nil
	}
	hint := ""
	switch e.Activity {
	case agent.Approval:
		hint = fmt.Sprintf("#%d waits for an approval: `threadmill approve %d` or `threadmill deny %d` (see `threadmill approvals`)", w.number, w.number, w.number)
	case agent.Asking:
		hint = fmt.Sprintf("#%d asks a question: `threadmill approve %d --answer TEXT` (see `threadmill approvals`)", w.number, w.number)
	case agent.Idle:
		if w.once {
			return nil
		}
		hint = fmt.Sprintf("#%d waits for a message: `threadmill send %d TEXT`", w.number, w.number)
	case agent.Working:
		return nil
	}
	if hint == "" {
		return nil
	}
	_, err := fmt.Fprintln(w.app.err, w.app.paint(w.app.err, yellow, hint))
	return err
}

// log writes a piece of the log where the agent wrote it.
func (w *watcher) log(e api.LogEvent) error {
	if w.quiet {
		return nil
	}
	if w.raw {
		return w.prefixed(e.Stream, e.Content)
	}
	switch e.Stream {
	case agent.Stdout:
		_, err := io.WriteString(w.app.out, e.Content)
		return err
	case agent.Stderr:
		_, err := io.WriteString(w.app.err, e.Content)
		return err
	case agent.System:
	}
	_, err := io.WriteString(w.app.err, w.app.paint(w.app.err, grey, e.Content))
	return err
}

// prefixed writes lines as they stand in the log file.
func (w *watcher) prefixed(stream agent.Stream, content string) error {
	var b strings.Builder
	for line := range strings.Lines(content) {
		fmt.Fprintf(&b, "[%s] %s", stream, line)
	}
	_, err := io.WriteString(w.app.out, b.String())
	return err
}
