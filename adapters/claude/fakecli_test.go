package claude_test

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// fakeProgram is the test binary's first argument when it plays Claude Code: as little
// of it as the suite needs, in the shapes of the recorded transcripts. The real one is
// driven by `make conformance`.
const fakeProgram = "fake-claude"

type object = map[string]any

// fake is the CLI. A message is a word and the rest, as in package fakeapi.
type fake struct {
	session string
	file    string // what was said in the session, one JSON string a line
	old     bool   // says no more than old versions do

	mu      sync.Mutex
	turns   chan object            // messages that wait
	answers map[string]chan object // to questions, by request
	stop    context.CancelFunc     // of the running turn
	n       int
	failed  bool // the last turn
}

func playClaude(args []string) int {
	if len(args) > 0 && args[len(args)-1] == "--version" {
		fmt.Println("2.1.999 (Claude Code)")
		return 0
	}
	f := &fake{turns: make(chan object, 100), answers: map[string]chan object{}, stop: func() {}, old: args[0] == "old"}
	if f.old {
		args = args[1:]
	}
	if code, ok := f.open(args); !ok {
		return code
	}
	return f.serve(os.Stdin)
}

// open takes the flags that the adapter always gives; others it would refuse.
func (f *fake) open(args []string) (code int, ok bool) {
	set := flag.NewFlagSet(fakeProgram, flag.ContinueOnError)
	for _, name := range []string{"p", "verbose", "include-partial-messages", "replay-user-messages"} {
		set.Bool(name, false, "")
	}
	for _, name := range []string{"input-format", "output-format", "permission-prompt-tool", "permission-mode"} {
		set.String(name, "", "")
	}
	resume, fork := set.String("resume", "", ""), set.Bool("fork-session", false, "")
	set.StringVar(&f.session, "session-id", "", "")
	if set.Parse(args) != nil {
		return 1, false
	}
	place := func(id string) string { return filepath.Join(os.Getenv("HOME"), id+".jsonl") }
	if *resume == "" {
		f.file = place(f.session)
		return 0, true
	}
	told, err := os.ReadFile(place(*resume))
	if err != nil {
		text := "No conversation found with session ID: " + *resume
		fmt.Fprintln(os.Stderr, text)
		f.say(object{"type": "result", "subtype": "error_during_execution", "is_error": true, "num_turns": 0, "errors": []string{text}})
		return 1, false
	}
	if !*fork {
		f.session = *resume
	}
	f.file = place(f.session)
	return 0, os.WriteFile(f.file, told, 0o600) == nil
}

// serve reads to the end of the input, then finishes what was said.
func (f *fake) serve(in io.Reader) int {
	var busy sync.WaitGroup
	busy.Go(func() {
		for line := range f.turns {
			f.turn(line)
		}
	})
	r := bufio.NewReader(in)
	for {
		line, err := r.ReadBytes('\n')
		var o object
		if json.Unmarshal(line, &o) == nil {
			f.take(o)
		}
		if err != nil {
			break
		}
	}
	close(f.turns)
	f.mu.Lock()
	for _, answer := range f.answers {
		close(answer)
	}
	f.answers = nil
	f.mu.Unlock()
	busy.Wait()
	if f.failed {
		return 1
	}
	return 0
}

func (f *fake) take(o object) {
	switch o["type"] {
	case "user":
		f.lifecycle(o, "queued")
		f.turns <- o
	case "control_request":
		f.mu.Lock()
		f.stop()
		f.mu.Unlock()
		f.say(object{"type": "control_response", "response": object{"subtype": "success", "request_id": o["request_id"]}})
	case "control_response":
		f.say(o) // echoed
		response := o["response"].(object)
		f.mu.Lock()
		if answer := f.answers[response["request_id"].(string)]; answer != nil {
			answer <- response["response"].(object)
		}
		f.mu.Unlock()
	}
}

func (f *fake) say(o object) {
	line, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	os.Stdout.Write(append(line, '\n')) // one write, so that lines stay whole
}

func (f *fake) lifecycle(user object, state string) {
	if !f.old {
		f.say(object{"type": "command_lifecycle", "command_uuid": user["uuid"], "state": state})
	}
}

func (f *fake) state(s string) {
	if os.Getenv("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS") == "1" {
		f.say(object{"type": "system", "subtype": "session_state_changed", "state": s})
	}
}

// turn plays a message.
func (f *fake) turn(user object) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	f.mu.Lock()
	f.stop = cancel
	f.mu.Unlock()
	text, _ := user["message"].(object)["content"].(string)
	f.remember(text)
	f.state("running")
	f.lifecycle(user, "started")
	f.say(object{
		"type": "system", "subtype": "init", "session_id": f.session, "model": "claude-test",
		"claude_code_version": "2.1.999", "permissionMode": "default",
	})
	user["isReplay"] = true
	f.say(user)
	word, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
	end := f.play(ctx, word, rest)
	if ctx.Err() != nil {
		end = object{"subtype": "error_during_execution", "is_error": true, "terminal_reason": "aborted_tools", "errors": []string{"[ede_diagnostic] x"}}
	}
	f.finish(end)
	f.lifecycle(user, "completed")
	f.state("idle")
}

func (f *fake) finish(end object) {
	f.n++
	result := object{
		"type": "result", "subtype": "success", "is_error": false, "num_turns": 1, "terminal_reason": "completed",
		"api_error_status": nil, "total_cost_usd": 0.001 * float64(f.n),
		"modelUsage": object{"claude-test": object{"inputTokens": 100 * f.n, "outputTokens": 20 * f.n, "costUSD": 0.001 * float64(f.n)}},
	}
	maps.Copy(result, end)
	f.failed = result["is_error"] == true
	f.say(result)
}

func (f *fake) remember(text string) {
	line, _ := json.Marshal(text)
	out, err := os.OpenFile(f.file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer out.Close()
	if _, err := out.Write(append(line, '\n')); err != nil {
		panic(err)
	}
}

// play does what a message says and returns what is special about its result.
func (f *fake) play(ctx context.Context, word, rest string) object {
	switch word {
	case "trickle":
		f.stream("text", strings.Fields(rest))
	case "think":
		f.stream("thinking", []string{rest})
	case "tool":
		f.tool(ctx, "Bash", object{"command": rest}, rest, false)
	case "badtool":
		f.tool(ctx, "Bash", object{"command": rest}, "Exit code 3\n"+rest, true)
	case "long":
		f.text("begun")
		f.steps(ctx)
	case "approve":
		f.approve(ctx, rest)
	case "ask":
		f.ask(ctx, rest)
	case "recall":
		told, _ := os.ReadFile(f.file)
		f.text("You said: " + string(told))
	case "error":
		status, _ := strconv.Atoi(rest)
		return object{"is_error": true, "api_error_status": status, "terminal_reason": "api_error", "result": "API Error " + rest}
	case "limit":
		f.say(object{"type": "rate_limit_event", "rate_limit_info": object{
			"status": "rejected", "resetsAt": time.Now().Add(time.Hour).Unix(), "rateLimitType": "five_hour",
		}})
		return object{"is_error": true, "api_error_status": 429, "terminal_reason": "api_error", "result": "You've hit your limit"}
	case "retry":
		f.say(object{"type": "system", "subtype": "api_retry", "attempt": 3, "max_retries": 10, "retry_delay_ms": 532.71, "error_status": 401, "error": "authentication_failed"})
		<-ctx.Done()
	case "exit":
		code, _ := strconv.Atoi(rest)
		fmt.Fprintln(os.Stderr, "these are the last words")
		os.Exit(code)
	default:
		f.text(rest)
	}
	return nil
}

// steps is busy with short tools for ten minutes; what is said meanwhile is folded in
// between two of them.
func (f *fake) steps(ctx context.Context) {
	for range 6000 {
		f.tool(ctx, "Bash", object{"command": "sleep 0.1"}, "", false, 100*time.Millisecond)
		if ctx.Err() != nil {
			return
		}
		select {
		case user, ok := <-f.turns:
			if ok {
				text, _ := user["message"].(object)["content"].(string)
				user["isReplay"] = true
				f.say(user)
				f.lifecycle(user, "started")
				f.text(text)
			}
		default:
		}
	}
}

func (f *fake) id(prefix string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
	return fmt.Sprintf("%s_%d_%d", prefix, os.Getpid(), f.n)
}

func (f *fake) assistant(id string, content ...object) {
	f.say(object{"type": "assistant", "parent_tool_use_id": nil, "message": object{"id": id, "model": "claude-test", "content": content}})
}

func (f *fake) text(text string) {
	f.assistant(f.id("msg"), object{"type": "text", "text": text})
}

func (f *fake) stream(kind string, parts []string) {
	id := f.id("msg")
	event := func(e object) { f.say(object{"type": "stream_event", "event": e}) }
	event(object{"type": "message_start", "message": object{"id": id}})
	event(object{"type": "content_block_start", "index": 0, "content_block": object{"type": kind}})
	for _, part := range parts {
		event(object{"type": "content_block_delta", "index": 0, "delta": object{"type": kind + "_delta", kind: part}})
	}
	f.assistant(id, object{"type": kind, kind: strings.Join(parts, "")})
	event(object{"type": "message_stop"})
}

func (f *fake) tool(ctx context.Context, name string, input object, result string, bad bool, busy ...time.Duration) {
	id := f.id("toolu")
	f.assistant(f.id("msg"), object{"type": "tool_use", "id": id, "name": name, "input": input})
	for _, d := range busy {
		select {
		case <-ctx.Done():
			result, bad = "The user doesn't want to proceed", true
		case <-time.After(d):
		}
	}
	f.result(id, result, bad)
}

func (f *fake) result(id, text string, bad bool) {
	f.say(object{"type": "user", "message": object{"role": "user", "content": []object{
		{"type": "tool_result", "tool_use_id": id, "content": text, "is_error": bad},
	}}})
}

// permission asks and returns the answer; nil: the turn was ended meanwhile.
func (f *fake) permission(ctx context.Context, toolUse, name string, input object) object {
	request := f.id("req")
	answer := make(chan object, 1)
	f.mu.Lock()
	if f.answers == nil {
		close(answer)
	} else {
		f.answers[request] = answer
	}
	f.mu.Unlock()
	f.state("requires_action")
	f.say(object{"type": "control_request", "request_id": request, "request": object{
		"subtype": "can_use_tool", "tool_name": name, "input": input, "tool_use_id": toolUse,
	}})
	defer f.state("running")
	select {
	case a := <-answer:
		return a
	case <-ctx.Done():
		f.say(object{"type": "control_cancel_request", "request_id": request})
		return nil
	}
}

func (f *fake) approve(ctx context.Context, command string) {
	id, input := f.id("toolu"), object{"command": command}
	f.assistant(f.id("msg"), object{"type": "tool_use", "id": id, "name": "Bash", "input": input})
	a := f.permission(ctx, id, "Bash", input)
	switch {
	case a == nil:
		f.result(id, "Tool permission stream closed", true)
	case a["behavior"] == "allow":
		f.result(id, fmt.Sprint("ran ", a["updatedInput"].(object)["command"]), false)
	default:
		f.result(id, fmt.Sprint(a["message"]), true)
		if a["interrupt"] == true {
			f.stop()
		}
	}
}

func (f *fake) ask(ctx context.Context, rest string) {
	id := f.id("toolu")
	input := object{"questions": []object{{"question": rest, "header": "H", "options": []object{{"label": "yes"}, {"label": "no"}}}}}
	f.assistant(f.id("msg"), object{"type": "tool_use", "id": id, "name": "AskUserQuestion", "input": input})
	a := f.permission(ctx, id, "AskUserQuestion", input)
	text := "The user did not answer"
	if in, ok := a["updatedInput"].(object); ok && in["questions"] != nil {
		text = fmt.Sprint("You answered: ", in["answers"].(object)[rest])
	}
	f.result(id, text, false)
	f.text(text)
}
