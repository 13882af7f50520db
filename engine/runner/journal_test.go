package runner

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/redact"
	"github.com/threadmill/threadmill/engine/rundir"
)

const testSecret = "s3cret-V4lue"

// book is a journal over real files.
type book struct {
	*journal

	t   *testing.T
	dir string
	log *rundir.LogWriter
}

func newBook(t *testing.T) *book {
	t.Helper()
	dir := t.TempDir()
	events, err := rundir.OpenEvents(dir)
	if err != nil {
		t.Fatal(err)
	}
	log, err := rundir.OpenLog(dir, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	failed := func(err error) { t.Error(err) }
	p := newPane(time.Now(), false)
	j := &journal{
		events: events, mask: redact.New([]string{testSecret}), failed: failed,
		script: newTranscript(log, p, failed),
	}
	t.Cleanup(func() { _, _ = events.Close(), log.Close() })
	return &book{journal: j, t: t, dir: dir, log: log}
}

func (b *book) entries() []agent.Entry {
	b.t.Helper()
	entries, _, err := rundir.ReadEvents(b.dir, rundir.Cursor{}, 1<<20)
	if err != nil {
		b.t.Fatal(err)
	}
	return entries
}

func (b *book) printed() string {
	b.t.Helper()
	r, err := rundir.OpenLogReader(b.dir)
	if err != nil {
		b.t.Fatal(err)
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	if err != nil {
		b.t.Fatal(err)
	}
	return string(text)
}

func piece(id, text string) agent.Entry {
	return agent.Entry{Kind: agent.KindAssistant, ID: id, Append: true, Content: text}
}

func whole(id, text string) agent.Entry {
	return agent.Entry{Kind: agent.KindAssistant, ID: id, Content: text}
}

// FuzzPieces cuts a text into pieces of any size: what is written is the masked text,
// what is printed are its lines, each once, whether or not the whole text follows.
func FuzzPieces(f *testing.F) {
	f.Add("it is "+testSecret+"\nand more", uint8(1), false)
	f.Add("\n\n"+testSecret+testSecret[:5], uint8(3), true)
	f.Add("", uint8(0), true)
	f.Fuzz(func(t *testing.T, text string, step uint8, final bool) {
		text = strings.ToValidUTF8(strings.ReplaceAll(text, "\r", ""), "?") // JSON carries nothing else
		b := newBook(t)
		runes := []rune(text)
		for n := int(step) + 1; len(runes) > 0; {
			n = min(n, len(runes))
			b.record(piece("a", string(runes[:n])))
			runes = runes[n:]
		}
		if final {
			b.record(whole("a", text))
		}
		b.settle()
		b.check(text, final)
	})
}

func (b *book) check(text string, final bool) {
	b.t.Helper()
	want := b.mask.Text(text)
	var streamed, last string
	for _, e := range b.entries() {
		if e.Append {
			streamed += e.Content
		} else {
			last = e.Content
		}
	}
	if final && last != want || !final && streamed != want {
		b.t.Errorf("streamed %q, last %q, want %q", streamed, last, want)
	}
	var lines strings.Builder
	for line := range strings.Lines(want) {
		lines.WriteString("[stdout] " + strings.TrimSuffix(line, "\n") + "\n")
	}
	if got := b.printed(); got != lines.String() {
		b.t.Errorf("printed %q, want %q", got, lines.String())
	}
}

func TestTranscript(t *testing.T) {
	t.Parallel()
	code := 3
	for name, tc := range map[string]struct {
		entries []agent.Entry
		want    string
	}{
		"a final text that differs": {
			[]agent.Entry{piece("a", "one\ntw"), whole("a", "other")},
			"[stdout] one\n[stdout] tw\n[stdout] other\n",
		},
		"a text that is sent again": {
			[]agent.Entry{whole("a", "one"), whole("a", "one"), whole("a", "one\ntwo")},
			"[stdout] one\n[stdout] two\n",
		},
		"two texts at once": {
			[]agent.Entry{piece("a", "a1 "), piece("b", "b1\n"), piece("a", "a2\n")},
			"[stdout] b1\n[stdout] a1 a2\n",
		},
		"texts without an id": {
			[]agent.Entry{whole("", "same"), whole("", "same\n")},
			"[stdout] same\n[stdout] same\n",
		},
		"thinking": {
			[]agent.Entry{
				{Kind: agent.KindThinking, Content: "hm\nwell"},
				{Kind: agent.KindThinking, ID: "t", Append: true, Content: "so\n"},
				{Kind: agent.KindThinking, ID: "t", Content: "so\nthere"},
			},
			"[system] thinking: hm\n[system] well\n[system] thinking: so\n[system] there\n",
		},
		"an error": {[]agent.Entry{{Kind: agent.KindError, Content: "it broke"}}, "[stderr] it broke\n"},
		"a tool": {
			[]agent.Entry{
				{Kind: agent.KindToolUse, ID: "t", Tool: &agent.Tool{Name: "Bash", Command: "make\ntest", Status: agent.ToolCreated}},
				{Kind: agent.KindToolUse, ID: "t", Tool: &agent.Tool{Name: "Bash", Command: "make\ntest", Status: agent.ToolRunning}},
				{Kind: agent.KindToolUse, ID: "t", Tool: &agent.Tool{Name: "Bash", Command: "make\ntest", Status: agent.ToolRunning}},
				{Kind: agent.KindToolUse, ID: "t", Tool: &agent.Tool{Name: "Bash", Command: "make\ntest", Status: agent.ToolFailed, ExitCode: &code}},
				{Kind: agent.KindToolUse, Tool: &agent.Tool{Name: "Read", Path: "/a", Status: agent.ToolSuccess}},
			},
			"[system] Bash: make test → running\n[system] Bash: make test → failed (exit code 3)\n[system] Read: /a → success\n",
		},
		"asks": {
			[]agent.Entry{
				{Kind: agent.KindApproval, Content: "rm x", Ask: &agent.Ask{Tool: "Bash", State: agent.AskOpen}},
				{Kind: agent.KindApproval, Ask: &agent.Ask{Tool: "Bash", State: agent.AskDecided, Decision: &agent.Decision{Allow: true, By: "eve"}}},
				{Kind: agent.KindApproval, Ask: &agent.Ask{Tool: "Bash", State: agent.AskDecided, Decision: &agent.Decision{}}},
				{Kind: agent.KindApproval, Ask: &agent.Ask{Tool: "Bash", State: agent.AskTimedOut}},
				{Kind: agent.KindQuestion, Ask: &agent.Ask{Questions: []agent.Question{{Text: "which?"}}, State: agent.AskOpen}},
				{Kind: agent.KindQuestion, Ask: &agent.Ask{Questions: []agent.Question{{Text: "which?"}}, State: agent.AskWithdrawn}},
			},
			"[system] waits for permission: Bash rm x\n[system] allowed by eve: Bash\n[system] denied: Bash\n" +
				"[system] nobody decided in time: Bash\n[system] waits for an answer: which?\n[system] no longer waits: which?\n",
		},
		"asks that repeat themselves": {
			[]agent.Entry{
				{Kind: agent.KindQuestion, Content: "Which way?", Ask: &agent.Ask{Questions: []agent.Question{{Text: "Which way? "}}}},
				{Kind: agent.KindQuestion, Content: "1. Which?\n2. When?", Ask: &agent.Ask{Questions: []agent.Question{{Text: "Which?"}, {Text: "When?"}}}},
				{Kind: agent.KindQuestion, Content: "It depends.", Ask: &agent.Ask{Questions: []agent.Question{{Text: "Which?"}, {Text: "When?"}}}},
			},
			"[system] waits for an answer: Which way?\n[system] waits for an answer: 1. Which? 2. When?\n" +
				"[system] waits for an answer: It depends. Which? When?\n",
		},
		"an entry that is no JSON": {
			[]agent.Entry{{Kind: agent.KindToolUse, Tool: &agent.Tool{Name: "x", Input: []byte(`{`), Status: agent.ToolRunning}}},
			"[stderr] an entry of kind \"tool_use\" could not be recorded: ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBook(t)
			for _, e := range tc.entries {
				b.record(e)
			}
			b.settle()
			if got := b.printed(); !strings.HasPrefix(got, tc.want) || tc.want[len(tc.want)-1] == '\n' && got != tc.want {
				t.Errorf("printed %q, want %q", got, tc.want)
			}
		})
	}
}
