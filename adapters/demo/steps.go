package demo

import (
	"context"
	"fmt"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/threadmill/threadmill/engine/agent"
)

// The measures of what the agent says.
const (
	moment       = 10 * time.Millisecond // it thinks about plain text
	repeatBytes  = 64 << 10              // streamed text up to this size is repeated as a whole at its end
	floodBytes   = 32 << 10              // of a flood, in one event
	floodLine    = 100
	pollEvery    = 64 // lines
	crashTime    = 10 * time.Second
	failedPlease = "failed, as the script says"
)

// follow runs the script in a message.
func (p *player) follow(ctx context.Context, m request) error {
	if err := p.memory.add(m.Text); err != nil {
		return err
	}
	for _, s := range parseScript(m.Text) {
		if err := p.poll(ctx); err != nil {
			return err
		}
		if err := p.step(ctx, s, m.Files); err != nil {
			return err
		}
	}
	return nil
}

func (p *player) step(ctx context.Context, s step, files []string) error {
	switch s.word {
	case wSay:
		p.say(s.text)
	case wThink:
		p.emit(event{Type: evThought, ID: p.newID("thought"), Text: s.text})
	case wLines:
		return p.lines(ctx, s)
	case wSleep:
		return p.sleep(ctx, s.wait)
	case wTool:
		return p.tool(ctx, s.argv, s.text)
	case wApprove:
		return p.approve(ctx, s)
	case wAsk:
		return p.ask(ctx, s)
	case wEdit:
		p.edit(s)
	case wUsage:
		p.spend(s)
	case wLimit:
		return limitReached(s.wait)
	case wFail:
		return failed(s.text)
	case wCrash:
		return p.crash()
	case wIgnoreTerm:
		signal.Ignore(syscall.SIGTERM)
		p.say("I ignore SIGTERM from now on.")
	case wFork:
		return p.fork(ctx, s.wait)
	case wFlood:
		return p.flood(ctx, s.count)
	case wEnv:
		return p.environment(ctx)
	case wRecall:
		p.recall()
	case wTalk:
		return p.talk(ctx, s.text, files)
	}
	return nil
}

func (p *player) say(text string) {
	p.emit(event{Type: evText, ID: p.newID("text"), Text: text})
}

func (p *player) talk(ctx context.Context, text string, files []string) error {
	if err := p.sleep(ctx, moment); err != nil {
		return err
	}
	answer := "You said: " + text
	if len(files) > 0 {
		answer += "\n\nWith " + strings.Join(files, ", ") + "."
	}
	p.say(answer + "\n\n" + hint)
	return nil
}

func (p *player) sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	_, err := await(ctx, p, timer.C)
	return err
}

// lines streams numbered lines as parts of one text.
func (p *player) lines(ctx context.Context, s step) error {
	var tick <-chan time.Time
	if s.wait > 0 {
		ticker := time.NewTicker(s.wait)
		defer ticker.Stop()
		tick = ticker.C
	}
	id, text := p.newID("text"), strings.Builder{}
	var err error
	for n := int64(1); n <= s.count; n++ {
		if err = p.beforeLine(ctx, tick, n); err != nil {
			break
		}
		line := fmt.Sprintf("line %d\n", n)
		p.emit(event{Type: evText, ID: id, Text: line, More: true})
		if text.Len() <= repeatBytes {
			text.WriteString(line)
		}
	}
	if text.Len() > 0 && text.Len() <= repeatBytes {
		p.emit(event{Type: evText, ID: id, Text: text.String()})
	}
	return err
}

func (p *player) beforeLine(ctx context.Context, tick <-chan time.Time, n int64) error {
	switch {
	case tick != nil:
		_, err := await(ctx, p, tick)
		return err
	case n%pollEvery == 0:
		return p.poll(ctx)
	}
	return nil
}

// flood says n bytes, as fast as they are taken, in numbered lines.
func (p *player) flood(ctx context.Context, n int64) error {
	id, chunk, line := p.newID("text"), make([]byte, 0, floodBytes+floodLine), int64(0)
	for n > 0 {
		chunk = chunk[:0]
		for len(chunk) < floodBytes && int64(len(chunk)) < n {
			line++
			chunk = appendFloodLine(chunk, line)
		}
		if int64(len(chunk)) > n {
			chunk = chunk[:n]
		}
		n -= int64(len(chunk))
		p.emit(event{Type: evText, ID: id, Text: string(chunk), More: true})
		if err := p.poll(ctx); err != nil {
			return err
		}
	}
	return nil
}

func appendFloodLine(b []byte, n int64) []byte {
	start := len(b)
	b = fmt.Appendf(b, "%012d ", n)
	for len(b)-start < floodLine-1 {
		b = append(b, 'x')
	}
	return append(b, '\n')
}

func (p *player) spend(s step) {
	p.usage.usd += s.usd
	p.usage.tokens += s.count
	p.emit(event{Type: evUsage, Usage: &agent.Usage{OutputTokens: p.usage.tokens, CostUSD: p.usage.usd}})
}

func (p *player) recall() {
	said := p.memory.said()
	var b strings.Builder
	b.WriteString("You said to me:\n")
	for _, text := range said {
		fmt.Fprintf(&b, "\n- %s", strings.ReplaceAll(text, "\n", "\n  "))
	}
	p.say(b.String())
}

// environment says what a program that the agent starts sees.
func (p *player) environment(ctx context.Context) error {
	res, err := p.execute(ctx, []string{"env"})
	if err != nil {
		return err
	}
	vars := slices.Sorted(strings.Lines(res.output))
	p.say("```\n" + strings.Join(vars, "") + "```")
	return nil
}

func limitReached(wait time.Duration) error {
	at := time.Now().Add(wait).UTC().Truncate(time.Second)
	return &fatal{event{
		Type: evError, Reason: agent.ReasonAgentLimit, ResetsAt: &at,
		Text: "the usage limit is reached; it resets at " + at.Format(time.RFC3339),
	}}
}

func failed(text string) error {
	if text == "" {
		text = failedPlease
	}
	return &fatal{event{Type: evError, Reason: agent.ReasonAgentError, Text: text}}
}

// crash ends the process as a bug would: by a signal, in the middle of things. The
// runtime's traceback is kept from stderr and no core file is left.
func (p *player) crash() error {
	if err := p.out.Flush(); err != nil {
		return fmt.Errorf("write events: %w", err)
	}
	fmt.Fprintln(p.stderr, "demo agent: crashing, as the script says")
	_ = syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{})
	debug.SetTraceback("crash")
	_ = syscall.Close(syscall.Stderr)
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGABRT); err != nil {
		return failed("crash: " + err.Error())
	}
	<-time.After(crashTime) // the signal may take a moment
	return failed("the crash did not come")
}
