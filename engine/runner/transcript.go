package runner

import (
	"fmt"
	"hash/maphash"
	"strings"

	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/rundir"
)

const (
	// maxKnownTexts bounds how many texts are remembered so as not to print them twice.
	maxKnownTexts = 4096
	// maxHeldText is how much of an unfinished line is held, as in the log.
	maxHeldText = 1 << 20
)

// transcript prints entries, which are masked already, as readable lines into the log
// and the pane. It is used by the run's loop alone.
type transcript struct {
	pane           *pane
	out, err, note *rundir.LineWriter // to the log
	failed         func(error)        // told of a log that cannot be written
	seed           maphash.Seed
	texts          map[textKey]*text
	tools          map[string]agent.ToolStatus // by id: what was printed last
}

type textKey struct {
	kind agent.Kind
	id   string
}

// text is what was printed of a text that comes in pieces, or comes again.
type text struct {
	held  strings.Builder // the unfinished line
	size  int
	hash  maphash.Hash
	begun bool
	ended bool // its last line was ended before its end came
}

func newTranscript(log *rundir.LogWriter, p *pane, failed func(error)) *transcript {
	return &transcript{
		pane: p, failed: failed, seed: maphash.MakeSeed(),
		out: log.Stream(agent.Stdout, nil), err: log.Stream(agent.Stderr, nil), note: log.Stream(agent.System, nil),
		texts: map[textKey]*text{}, tools: map[string]agent.ToolStatus{},
	}
}

// entry prints an entry.
func (t *transcript) entry(e agent.Entry) {
	switch e.Kind {
	case agent.KindAssistant, agent.KindThinking, agent.KindSystem, agent.KindError:
		t.prose(e)
	case agent.KindUser:
		t.user(e)
	case agent.KindToolUse:
		t.tool(e)
	case agent.KindApproval, agent.KindQuestion:
		t.ask(e)
	case agent.KindUsage, agent.KindStatus: // shown by those who show the run
	}
}

// prose prints a text as far as it was not printed yet, in whole lines.
func (t *transcript) prose(e agent.Entry) {
	if e.ID == "" {
		x := t.newText()
		t.add(e.Kind, x, e.Content)
		t.finish(e.Kind, x)
		return
	}
	x := t.text(textKey{e.Kind, e.ID})
	content := e.Content
	if !e.Append {
		content = t.unprinted(x, content)
	}
	t.add(e.Kind, x, content)
	if !e.Append {
		t.finish(e.Kind, x)
	}
}

// unprinted returns what is new in a text that takes the place of its pieces: what
// follows them where it repeats them, else all of it.
func (t *transcript) unprinted(x *text, whole string) string {
	if len(whole) >= x.size && maphash.String(t.seed, whole[:x.size]) == x.hash.Sum64() {
		return whole[x.size:]
	}
	held := x.held.String()
	*x = *t.newText()
	if held != "" {
		return held + "\n" + whole
	}
	return whole
}

func (t *transcript) text(key textKey) *text {
	x := t.texts[key]
	if x == nil {
		if len(t.texts) >= maxKnownTexts {
			t.settle()
			clear(t.texts)
		}
		x = t.newText()
		t.texts[key] = x
	}
	return x
}

func (t *transcript) newText() *text {
	x := &text{}
	x.hash.SetSeed(t.seed)
	return x
}

func (t *transcript) add(kind agent.Kind, x *text, piece string) {
	x.size += len(piece)
	_, _ = x.hash.WriteString(piece) // never fails
	if !x.begun && piece != "" && kind == agent.KindThinking {
		piece = "thinking: " + piece
	}
	x.begun = x.begun || piece != ""
	if x.ended && piece != "" {
		piece, x.ended = strings.TrimPrefix(piece, "\n"), false
	}
	end := strings.LastIndexByte(piece, '\n') + 1
	if end > 0 {
		t.lines(kind, x.held.String()+piece[:end])
		x.held.Reset()
	}
	x.held.WriteString(piece[end:])
	if x.held.Len() > maxHeldText {
		t.finish(kind, x)
	}
}

// finish prints the unfinished line of a text.
func (t *transcript) finish(kind agent.Kind, x *text) {
	if x.held.Len() > 0 {
		t.lines(kind, x.held.String()+"\n")
		x.held.Reset()
		x.ended = true
	}
}

// settle prints all unfinished lines.
func (t *transcript) settle() {
	for key, x := range t.texts {
		t.finish(key.kind, x)
	}
}

// lines prints whole lines of a text.
func (t *transcript) lines(kind agent.Kind, s string) {
	if kind == agent.KindAssistant {
		t.print(t.out, s, "", s)
		return
	}
	if kind == agent.KindError {
		t.print(t.err, s, styleRed, s)
		return
	}
	t.print(t.note, s, styleDim, s)
}

func (t *transcript) user(e agent.Entry) {
	from, _ := e.Meta["from"].(string)
	head := "message"
	if from != "" {
		head += " from " + from
	}
	t.print(t.note, ensureLine(head+": "+e.Content), styleBold+styleCyan, ensureLine("> "+e.Content))
}

func (t *transcript) tool(e agent.Entry) {
	if e.Tool == nil || e.Tool.Status == agent.ToolCreated || e.ID != "" && t.tools[e.ID] == e.Tool.Status {
		return
	}
	t.remember(e.ID, e.Tool.Status)
	line := toolLine(e.Tool) + "\n"
	t.print(t.note, line, "", toolStyle(e.Tool.Status)+"● "+styleReset+line)
}

func toolStyle(s agent.ToolStatus) string {
	switch s {
	case agent.ToolSuccess:
		return styleGreen
	case agent.ToolFailed:
		return styleRed
	case agent.ToolCreated, agent.ToolRunning:
	}
	return styleYellow
}

func (t *transcript) remember(id string, s agent.ToolStatus) {
	switch {
	case id == "":
	case s == agent.ToolRunning:
		t.tools[id] = s
	default: // over; a later entry about it would be a correction, and is printed
		delete(t.tools, id)
	}
}

func toolLine(tool *agent.Tool) string {
	what := tool.Command
	if what == "" {
		what = tool.Path
	}
	line := tool.Name
	if what != "" {
		line += ": " + strings.ReplaceAll(what, "\n", " ")
	}
	line += " → " + string(tool.Status)
	if tool.ExitCode != nil {
		line += fmt.Sprintf(" (exit code %d)", *tool.ExitCode)
	}
	return line
}

func (t *transcript) ask(e agent.Entry) {
	if e.Ask == nil {
		return
	}
	line := askLine(e) + "\n"
	t.print(t.note, line, styleBold+styleYellow, line)
}

func askLine(e agent.Entry) string {
	what := "waits for permission"
	if e.Kind == agent.KindQuestion {
		what = "waits for an answer"
	}
	if e.Ask.Reminders > 0 {
		what = "still " + what
	}
	switch e.Ask.State {
	case agent.AskDecided:
		what = decided(e)
	case agent.AskTimedOut:
		what = "nobody decided in time"
	case agent.AskWithdrawn:
		what = "no longer waits"
	case agent.AskOpen:
	}
	subject := strings.TrimSpace(e.Ask.Tool + " " + asked(e))
	return what + ": " + strings.ReplaceAll(subject, "\n", " ")
}

// asked is what an ask says. Its content often repeats its questions, or the other way
// round; each is said once.
func asked(e agent.Entry) string {
	said := strings.TrimSpace(e.Content)
	for i, q := range e.Ask.Questions {
		text := strings.TrimSpace(q.Text)
		if i == 0 && strings.Contains(text, said) {
			said = text
		}
		if !strings.Contains(said, text) {
			said += " " + text
		}
	}
	return said
}

func decided(e agent.Entry) string {
	d := e.Ask.Decision
	switch {
	case d == nil || e.Kind == agent.KindQuestion:
		return "answered" + by(d)
	case d.Allow:
		return "allowed" + by(d)
	}
	return "denied" + by(d)
}

func by(d *agent.Decision) string {
	if d == nil || d.By == "" {
		return ""
	}
	return " by " + d.By
}

// print writes lines to the log and, in their own form, to the pane.
func (t *transcript) print(to *rundir.LineWriter, logged, style, shown string) {
	if _, err := to.Write([]byte(logged)); err != nil {
		t.failed(err)
	}
	t.pane.print(style, shown)
}

// ensureLine ends a text with a newline.
func ensureLine(s string) string {
	return strings.TrimRight(s, "\n") + "\n"
}
