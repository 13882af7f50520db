package claude

import (
	"fmt"
	"strings"
	"time"

	"github.com/threadmill/threadmill/adapters/internal/program"
	"github.com/threadmill/threadmill/engine/agent"
)

// maxComplaints is how many lines that nobody understands are told one by one.
const maxComplaints = 20

// teller turns what the CLI says into entries. It is plain state: no process, no
// goroutine, no clock but the one it is given.
type teller struct {
	now   func() time.Time
	turn  turn
	texts texts
	tools tools
	asks  asks
	bill  bill

	allowed    map[string]string // tool calls that were allowed and have not begun, by request
	session    string
	model      string
	apiError   string     // what the last message made by the CLI itself calls the error
	limit      *time.Time // when a usage limit that was hit resets
	failed     *failure   // how the last turn failed; nil: it did not
	aborted    bool       // the last turn was interrupted
	complaints int
}

func newTeller(dir string, now func() time.Time) *teller {
	return &teller{now: now, turn: newTurn(), texts: newTexts(), tools: newTools(dir), asks: asks{}, allowed: map[string]string{}}
}

// started is the first thing to tell. uuid names the first message, where there is one.
func (t *teller) started(pid int, uuid string) []agent.Entry {
	if uuid != "" {
		t.turn.sent(uuid)
	}
	told := t.turn.news()
	told[0].Status.Pid = pid
	return told
}

// take tells an event.
func (t *teller) take(event any) []agent.Entry {
	return append(t.tell(event), t.turn.news()...)
}

func (t *teller) tell(event any) []agent.Entry {
	switch e := event.(type) {
	case *evInit:
		return t.init(e)
	case *evAssistant:
		return t.assistant(e)
	case *evUser:
		return t.user(e)
	case *evStream:
		if e.Parent == "" {
			return t.texts.event(e)
		}
	case *evAsk:
		return t.asks.opened(e)
	case *evCancelAsk:
		return t.asks.withdrawn(e.RequestID)
	case *evReply:
		return t.allowedTool(e.Response.RequestID)
	case *evResult:
		return t.result(e)
	case *evRetry:
		return t.retry(e)
	case *evRateLimit:
		return t.rateLimit(e)
	case *evTaskEnd:
		return t.taskEnd(e)
	case *evTaskStart:
		return t.tools.running(e.ToolUseID)
	case *evProgress:
		return t.tools.running(e.Parent)
	case *evNote:
		return note(e.Content)
	default:
		t.notice(event)
	}
	return nil
}

// notice takes what only says where the turn stands.
func (t *teller) notice(event any) {
	switch e := event.(type) {
	case *evState:
		t.turn.state(e.State)
	case *evLifecycle:
		if e.State != "queued" {
			t.turn.taken(e.UUID)
		}
	case *evTasks:
		var ids []string
		for _, task := range e.Tasks {
			ids = append(ids, task.ID)
		}
		t.turn.background(ids)
	}
}

func note(text string) []agent.Entry {
	if text = strings.TrimSpace(text); text == "" {
		return nil
	}
	return []agent.Entry{{Kind: agent.KindSystem, Content: text}}
}

// init takes the beginning of a turn. It names the session, which can change.
func (t *teller) init(e *evInit) []agent.Entry {
	if !t.turn.states {
		t.turn.run(true)
	}
	var told []agent.Entry
	if e.SessionID != "" && e.SessionID != t.session {
		t.session = e.SessionID
		told = append(told, agent.Entry{Kind: agent.KindStatus, Status: &agent.Status{SessionRef: e.SessionID}})
	}
	if e.Model == "" || e.Model == t.model {
		return told
	}
	t.model = e.Model
	text := fmt.Sprintf("Claude Code %s with %s, permission mode %s.%s", e.Version, e.Model, e.Mode, e.trouble())
	meta := map[string]any{"model": e.Model, "version": e.Version, "permissionMode": e.Mode, "sessionId": e.SessionID}
	return append(told, agent.Entry{Kind: agent.KindSystem, Content: text, Meta: meta})
}

// trouble names the MCP servers that do not work.
func (e *evInit) trouble() string {
	var b strings.Builder
	for _, s := range e.Servers {
		if s.Status == "failed" || s.Status == "needs-auth" {
			fmt.Fprintf(&b, " MCP server %s: %s.", s.Name, s.Status)
		}
	}
	return b.String()
}

// assistant takes blocks of an answer. What a sub-agent says stays with the call that
// asked for it; what it does is shown.
func (t *teller) assistant(e *evAssistant) []agent.Entry {
	if e.Error != "" {
		t.apiError = e.Error // its text comes again with the result
		t.texts.keep()
		return nil
	}
	var told []agent.Entry
	for _, b := range e.Message.Content {
		switch {
		case b.Type == "tool_use":
			told = append(told, t.tools.begun(b, e.Parent)...)
		case e.Parent != "":
		case b.Type == "text":
			told = append(told, t.texts.whole(e.Message.ID, agent.KindAssistant, b.Text)...)
		case b.Type == "thinking":
			told = append(told, t.texts.whole(e.Message.ID, agent.KindThinking, b.Thinking)...)
		}
	}
	return told
}

// user takes what goes to the model: results of tools, and the echo of messages.
func (t *teller) user(e *evUser) []agent.Entry {
	if e.Replay {
		t.turn.taken(e.UUID)
		return nil
	}
	out := outcomeOf(e.Result)
	var told []agent.Entry
	for _, b := range blocksOf(e.Message.Content) {
		if b.Type != "tool_result" {
			continue
		}
		t.turn.taskBegun(out.task())
		told = append(told, t.asks.overtaken(b.ForID)...)
		told = append(told, t.tools.ended(b, out)...)
	}
	return told
}

// allowedTool takes the echo of a decision: a tool that was allowed runs now.
func (t *teller) allowedTool(request string) []agent.Entry {
	toolUse := t.allowed[request]
	delete(t.allowed, request)
	return t.tools.running(toolUse)
}

func (t *teller) taskEnd(e *evTaskEnd) []agent.Entry {
	t.turn.taskEnded(e.ID)
	if e.Summary == "" {
		return nil
	}
	return note(fmt.Sprintf("A background task is %s: %s", e.Status, program.Clip(e.Summary, maxResult)))
}

// result takes the end of a turn.
func (t *teller) result(e *evResult) []agent.Entry {
	told := t.tools.close(false, "The turn ended before its result came.")
	t.texts.keep()
	if spent := t.bill.add(e); spent != nil {
		told = append(told, agent.Entry{Kind: agent.KindUsage, Usage: spent})
	}
	told = append(told, t.verdict(e)...)
	t.apiError = ""
	if !t.turn.states {
		t.turn.run(false)
	}
	return told
}

// verdict tells how the turn ended, where that is worth telling. A failure that ended
// the session has been told, and stands.
func (t *teller) verdict(e *evResult) []agent.Entry {
	if t.failed != nil && t.failed.final {
		return nil
	}
	t.failed, t.aborted = nil, strings.HasPrefix(e.Terminal, "aborted")
	switch {
	case t.aborted:
		return note("The turn was interrupted.")
	case e.IsError:
		t.failed = t.failureOf(e)
		return []agent.Entry{t.failed.entry()}
	}
	t.limit = nil // whatever it was, it is over
	return nil
}

// garbage tells a line that is not understood. A stream of them is not repeated.
func (t *teller) garbage(line []byte, why error) []agent.Entry {
	t.complaints++
	switch {
	case t.complaints > maxComplaints:
		return nil
	case t.complaints == maxComplaints:
		return note("Claude Code goes on to write lines that are not understood; wire.jsonl has them.")
	}
	text := strings.ToValidUTF8(string(line[:min(len(line), 200)]), "�")
	return note(fmt.Sprintf("A line of Claude Code was not understood (%v): %q", why, text))
}

// elapsed stops waiting for what did not happen.
func (t *teller) elapsed() []agent.Entry {
	t.turn.giveUp()
	return t.turn.news()
}

// ended is the last thing to tell: nothing runs any more.
func (t *teller) ended() []agent.Entry {
	return t.tools.close(true, "Claude Code ended before its result came.")
}
