package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/threadmill/threadmill/engine/agent"
)

// The bounds of a tool.
const (
	resultBytes = 16 << 10               // of its output, its end, that are told
	toolGrace   = 500 * time.Millisecond // after its end, for those that hold its output
)

const runTool = "run"

// result is how a tool's program ended.
type result struct {
	output string
	code   int
	err    error // it could not be run
}

// tool runs a command and tells of it.
func (p *player) tool(ctx context.Context, argv []string, line string) error {
	return p.runAs(ctx, p.newID("tool"), argv, line)
}

func (p *player) runAs(ctx context.Context, id string, argv []string, line string) error {
	t := commandTool(line, agent.ToolRunning)
	p.emit(event{Type: evTool, ID: id, Tool: &t})
	res, err := p.execute(ctx, argv)
	t.Status, t.Result = agent.ToolSuccess, res.output
	switch {
	case res.err != nil:
		t.Status, t.Result = agent.ToolFailed, strings.TrimSpace(res.output+"\n"+res.err.Error())
	case res.code != 0:
		t.Status = agent.ToolFailed
	}
	if res.err == nil {
		t.ExitCode = &res.code
	}
	p.emit(event{Type: evTool, ID: id, Tool: &t})
	return err
}

func commandTool(line string, status agent.ToolStatus) agent.Tool {
	return agent.Tool{
		Name: runTool, Action: agent.ActionCommandRun, Status: status,
		Input: commandInput(line), Command: line,
	}
}

func commandInput(line string) json.RawMessage {
	b, err := json.Marshal(map[string]string{"command": line})
	if err != nil {
		return nil // a string always encodes
	}
	return b
}

// commandOf reads the command line in a tool's input.
func commandOf(input json.RawMessage) (string, error) {
	var in struct {
		Command string `json:"command"`
	}
	if err := json.Unmarshal(input, &in); err != nil || in.Command == "" {
		return "", errors.New(`the modified input has to be {"command": "…"}`)
	}
	if argv, err := splitArgv(in.Command); err != nil || len(argv) == 0 {
		return "", fmt.Errorf("the modified command %q cannot be read: a quote is not closed or it is empty", in.Command)
	}
	return in.Command, nil
}

// execute runs argv to its end and serves requests meanwhile. An error is that of
// [await]; the program is dead then.
func (p *player) execute(ctx context.Context, argv []string) (result, error) {
	runCtx, kill := context.WithCancel(ctx)
	defer kill()
	done := make(chan result, 1)
	go func() { done <- run(runCtx, argv) }()
	res, err := await(ctx, p, done)
	if err != nil {
		kill()
		res = <-done
	}
	return res, err
}

// run stays in the agent's process group, so what ends the agent ends its tools.
func run(ctx context.Context, argv []string) result {
	var out tail
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &out, toolGrace
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() || errors.Is(err, exec.ErrWaitDelay) {
		err = nil
	}
	res := result{output: out.String(), err: err}
	if cmd.ProcessState != nil {
		res.code = cmd.ProcessState.ExitCode()
	}
	return res
}

// approve asks before it runs a command.
func (p *player) approve(ctx context.Context, s step) error {
	id := p.newID("tool")
	t := commandTool(s.text, agent.ToolCreated)
	p.emit(event{Type: evTool, ID: id, Tool: &t})
	d, err := p.permission(ctx, t)
	if err != nil || !d.Allow {
		why := "denied"
		if d.Text != "" {
			why += ": " + d.Text
		}
		t.Status, t.Result = agent.ToolFailed, why
		p.emit(event{Type: evTool, ID: id, Tool: &t})
		return p.denied(d, err, why)
	}
	if len(d.Input) == 0 {
		return p.runAs(ctx, id, s.argv, s.text)
	}
	line, err := commandOf(d.Input)
	if err != nil {
		return err // decide has refused it already
	}
	argv, err := splitArgv(line)
	if err != nil {
		return err
	}
	return p.runAs(ctx, id, argv, line)
}

func (p *player) denied(d request, err error, why string) error {
	switch {
	case err != nil:
		return err
	case d.Stop:
		return errInterrupted
	}
	p.say("I did not run it: " + why + ".")
	return nil
}

// permission gets an answer from the permission mode or from a person.
func (p *player) permission(ctx context.Context, t agent.Tool) (request, error) {
	switch p.opts.permission {
	case "bypassPermissions":
		return request{Allow: true}, nil
	case "dontAsk", "plan":
		return request{Text: "the permission mode is " + p.opts.permission}, nil
	}
	return p.question(ctx, event{Tool: &t})
}

// question asks and waits. After the end of the input nobody is there.
func (p *player) question(ctx context.Context, e event) (request, error) {
	if p.requests == nil {
		return request{Text: "nobody is there to answer"}, nil
	}
	e.Type, e.ID = evAsk, p.newID("ask")
	answer := make(chan request, 1)
	p.asks[e.ID] = answer
	p.emit(e)
	return await(ctx, p, answer)
}

// ask asks a question and says what was answered.
func (p *player) ask(ctx context.Context, s step) error {
	q := agent.Question{Text: s.text, FreeText: true}
	for _, c := range s.choices {
		q.Choices = append(q.Choices, agent.Choice{Label: c})
	}
	d, err := p.question(ctx, event{Questions: []agent.Question{q}})
	switch answer := d.Answers[s.text]; {
	case err != nil:
		return err
	case d.Stop:
		return errInterrupted
	case answer == "":
		p.say("Nobody answered.")
	default:
		p.say("You answered: " + answer)
	}
	return nil
}

// forkScript leaves a process behind whose parent is gone. It is constant; what the
// user gave is its argument.
const forkScript = `sleep "$1" >/dev/null 2>&1 & echo $!`

// fork starts a child that leaves the process group and the session, with another one
// between that ends, so it is nobody's child any more.
func (p *player) fork(ctx context.Context, life time.Duration) error {
	seconds := strconv.FormatFloat(life.Seconds(), 'f', 3, 64)
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", forkScript, "sh", seconds)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.Output()
	if err != nil {
		return failed("fork: " + err.Error())
	}
	p.say("A child left with pid " + strings.TrimSpace(string(out)) + ".")
	return nil
}

// tail keeps the end of what is written to it.
type tail struct {
	buf []byte
	cut bool // something before it was dropped
}

func (t *tail) Write(b []byte) (int, error) {
	t.buf = append(t.buf, b...)
	if len(t.buf) > 2*resultBytes {
		t.buf = append(t.buf[:0], t.buf[len(t.buf)-resultBytes:]...)
		t.cut = true
	}
	return len(b), nil
}

// String is valid UTF-8, whatever was written.
func (t *tail) String() string {
	end := t.buf[max(0, len(t.buf)-resultBytes):]
	text := strings.ToValidUTF8(string(end), "\uFFFD")
	if t.cut || len(end) < len(t.buf) {
		return "…" + text
	}
	return text
}
