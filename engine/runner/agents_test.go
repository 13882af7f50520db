package runner_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/threadmill/threadmill/engine/agent"
)

// commandAdapter runs job.Argv to its end, as the real command adapter does.
type commandAdapter struct{}

func (commandAdapter) Traits() agent.Traits { return agent.Traits{Protocol: "argv", Commands: true} }

func (commandAdapter) Check(context.Context, agent.Job) agent.Availability {
	return agent.Availability{OK: true}
}

func (commandAdapter) Start(_ context.Context, job agent.Job, rt agent.Runtime) (agent.Session, error) {
	p, err := rt.Start(agent.Command{Argv: job.Argv, Dir: job.Dir, Env: job.Env, LogStdout: true})
	if err != nil {
		return nil, err
	}
	s := &commandSession{entries: make(chan agent.Entry)}
	go s.run(p)
	return s, nil
}

type commandSession struct {
	entries chan agent.Entry
	outcome agent.Outcome
}

func (s *commandSession) run(p agent.Process) {
	defer close(s.entries)
	s.entries <- agent.Entry{Kind: agent.KindStatus, Status: &agent.Status{Activity: agent.Working, Pid: p.Pid()}}
	st := p.Wait()
	s.outcome = outcomeOf(st)
}

func outcomeOf(st agent.ExitStatus) agent.Outcome {
	o := agent.Outcome{ExitCode: &st.Code, Signal: st.Signal}
	if st.Code != 0 {
		o.Reason, o.Message = agent.ReasonExitCode, fmt.Sprintf("exited with code %d: %s", st.Code, st.Tail)
	}
	return o
}

func (s *commandSession) Entries() <-chan agent.Entry               { return s.entries }
func (s *commandSession) Send(context.Context, agent.Message) error { return agent.ErrUnsupported }

func (s *commandSession) Interrupt(context.Context) error { return agent.ErrUnsupported }

func (s *commandSession) Decide(context.Context, agent.Decision) error { return agent.ErrUnsupported }
func (s *commandSession) Close(context.Context) error                  { return nil }
func (s *commandSession) Outcome() agent.Outcome                       { return s.outcome }

// muteAdapter starts a program and never notices that it has ended.
type muteAdapter struct{ commandAdapter }

func (muteAdapter) Start(_ context.Context, job agent.Job, rt agent.Runtime) (agent.Session, error) {
	_, err := rt.Start(agent.Command{Argv: job.Argv, Dir: job.Dir, Env: job.Env, LogStdout: true})
	return &commandSession{entries: make(chan agent.Entry)}, err
}

// talkAdapter drives [agentMain]: each line to it is one JSON object {"do","text","id"},
// each line from it is an entry.
type talkAdapter struct{}

func (talkAdapter) Traits() agent.Traits {
	return agent.Traits{Protocol: "lines", Messages: true, Steering: true, Interrupt: true, Approvals: true}
}

func (talkAdapter) Check(context.Context, agent.Job) agent.Availability {
	return agent.Availability{OK: true}
}

func (talkAdapter) Start(_ context.Context, job agent.Job, rt agent.Runtime) (agent.Session, error) {
	if job.Options["slow_start"] == true {
		if _, err := rt.Start(agent.Command{Argv: job.Argv, Dir: job.Dir, Env: job.Env, Stdin: true}); err != nil {
			return nil, err
		}
		select {} // an agent that never says hello
	}
	p, err := rt.Start(agent.Command{Argv: job.Argv, Dir: job.Dir, Env: job.Env, Stdin: true})
	if err != nil {
		return nil, err
	}
	s := &talkSession{entries: make(chan agent.Entry), stdin: p.Stdin(), rt: rt, deaf: job.Options["deaf_close"] == true}
	go s.read(p)
	if job.Prompt != "" {
		err = s.say("message", job.Prompt, "")
	}
	return s, err
}

type talkSession struct {
	entries chan agent.Entry
	rt      agent.Runtime
	outcome agent.Outcome
	deaf    bool // does nothing when it is asked to end

	mu    sync.Mutex
	stdin io.WriteCloser
}

type order struct {
	Do   string `json:"do"`
	Text string `json:"text,omitempty"`
	ID   string `json:"id,omitempty"`
}

func (s *talkSession) read(p agent.Process) {
	defer close(s.entries)
	lines := bufio.NewScanner(p.Stdout())
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		s.rt.Wire(agent.WireOut, lines.Bytes())
		var e agent.Entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			s.rt.Print(agent.System, "not understood: "+lines.Text())
			continue
		}
		s.entries <- e
	}
	s.outcome = outcomeOf(p.Wait())
}

func (s *talkSession) say(do, text, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, err := json.Marshal(order{do, text, id})
	if err != nil {
		return err
	}
	s.rt.Wire(agent.WireIn, b)
	_, err = s.stdin.Write(append(b, '\n'))
	return err
}

func (s *talkSession) Entries() <-chan agent.Entry { return s.entries }

func (s *talkSession) Send(_ context.Context, m agent.Message) error {
	if m.Text == "refuse me" {
		return errors.New("refused")
	}
	return s.say("message", m.Text, m.ID)
}

func (s *talkSession) Interrupt(context.Context) error { return s.say("interrupt", "", "") }

func (s *talkSession) Decide(_ context.Context, d agent.Decision) error {
	return s.say("decide", fmt.Sprintf("allow=%t timedOut=%t by=%s", d.Allow, d.TimedOut, d.By), d.AskID)
}

func (s *talkSession) Close(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.deaf {
		return nil
	}
	return s.stdin.Close()
}

func (s *talkSession) Outcome() agent.Outcome { return s.outcome }

// talker is the agent at the other end: it carries out the words of its messages.
type talker struct {
	out    *json.Encoder
	orders chan order
	n      int
}

func agentMain(in io.Reader, out io.Writer) int {
	t := &talker{out: json.NewEncoder(out), orders: make(chan order)}
	go func() {
		defer close(t.orders)
		lines := bufio.NewScanner(in)
		for lines.Scan() {
			var o order
			if json.Unmarshal(lines.Bytes(), &o) == nil {
				t.orders <- o
			}
		}
	}()
	for o := range t.orders {
		if o.Do == "message" {
			t.turn(o.Text)
		}
	}
	return 0
}

func (t *talker) entry(e agent.Entry) { _ = t.out.Encode(e) }

func (t *talker) activity(a agent.Activity) {
	t.entry(agent.Entry{Kind: agent.KindStatus, Status: &agent.Status{Activity: a, SessionRef: "session-1"}})
}

func (t *talker) say(text string) { t.entry(agent.Entry{Kind: agent.KindAssistant, Content: text}) }

// turn carries out a message: words separated by ";".
func (t *talker) turn(text string) {
	t.activity(agent.Working)
	defer t.activity(agent.Idle)
	for step := range strings.SplitSeq(text, ";") {
		word, rest, _ := strings.Cut(strings.TrimSpace(step), " ")
		if !t.step(word, rest) {
			return
		}
	}
}

func (t *talker) step(word, rest string) bool {
	switch word {
	case "pieces": // each word is a piece of one text
		t.n++
		id := fmt.Sprint("text-", t.n)
		for piece := range strings.SplitSeq(rest, "|") {
			t.entry(agent.Entry{Kind: agent.KindAssistant, ID: id, Append: true, Content: strings.ReplaceAll(piece, `\n`, "\n")})
		}
	case "final":
		t.entry(agent.Entry{
			Kind: agent.KindAssistant, ID: fmt.Sprint("text-", t.n), Content: strings.ReplaceAll(rest, `\n`, "\n"),
		})
	case "work": // until a message or an interrupt comes
		return t.work()
	case "ask":
		t.entry(agent.Entry{Kind: agent.KindApproval, ID: "ask-1", Content: rest, Ask: &agent.Ask{Tool: "shell"}})
		return t.work()
	case "tool":
		for _, s := range []agent.ToolStatus{agent.ToolCreated, agent.ToolRunning, agent.ToolSuccess} {
			t.entry(agent.Entry{Kind: agent.KindToolUse, ID: "tool-1", Tool: &agent.Tool{
				Name: "shell", Action: agent.ActionCommandRun, Command: rest, Status: s,
			}})
		}
	case "usage":
		t.entry(agent.Entry{Kind: agent.KindUsage, Usage: &agent.Usage{InputTokens: 7, OutputTokens: 9, CostUSD: 0.5}})
	case "swell": // says more than there is room for
		for {
			t.entry(agent.Entry{Kind: agent.KindThinking, Content: strings.Repeat("x", 3000)})
		}
	case "fail": // says what its outcome will say as well
		t.entry(agent.Entry{Kind: agent.KindError, Content: "exited with code 3:"})
		os.Exit(3)
	case "crash":
		os.Exit(3)
	default:
		t.say("you said: " + strings.TrimSpace(word+" "+rest))
	}
	return true
}

func (t *talker) work() bool {
	o, more := <-t.orders
	if !more {
		os.Exit(0)
	}
	t.say(strings.TrimSpace(fmt.Sprintf("got %s %s %s", o.Do, o.Text, o.ID)))
	return o.Do != "interrupt"
}
