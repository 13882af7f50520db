package claude

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/threadmill/threadmill/adapters/internal/lines"
	"github.com/threadmill/threadmill/adapters/internal/program"
	"github.com/threadmill/threadmill/engine/agent"
)

// endWait is how long a CLI whose session has failed for good may take to end by itself.
const endWait = 5 * time.Second

// promptID names the first message within an execution.
const promptID = "prompt"

// session is a started Claude Code. One goroutine reads its lines, one writes to it,
// and one tells what happens: it outlives the others and closes entries.
type session struct {
	proc    agent.Process
	rt      agent.Runtime
	job     agent.Job
	entries chan agent.Entry
	out     *outbox
	gone    chan struct{} // closed when the CLI's output has ended
	written chan struct{} // closed when the writer has ended

	mu      sync.Mutex
	teller  *teller
	lastReq int64
	replies map[string]chan string // requests that wait for their reply
	closed  bool                   // by Close: an end that follows was asked for

	result agent.Outcome // written before entries is closed, read after
}

// said is a line of the CLI.
type said struct {
	event any
	told  []agent.Entry // what there is to say where it is no event
}

// opening is the first message, where there is one.
type opening struct {
	uuid string
	line []byte
}

func firstMessage(job agent.Job) (opening, error) {
	if job.Prompt == "" && len(job.Attachments) == 0 {
		return opening{}, nil
	}
	uuid := messageUUID(job.ExecutionID, promptID+job.SessionRef)
	line, err := userMessage(uuid, job.Prompt, job.Attachments, "")
	return opening{uuid: uuid, line: line}, err
}

func newSession(proc agent.Process, rt agent.Runtime, job agent.Job, first opening) *session {
	s := &session{
		proc: proc, rt: rt, job: job, entries: make(chan agent.Entry, 16), out: newOutbox(),
		gone: make(chan struct{}), written: make(chan struct{}),
		teller: newTeller(job.Dir, time.Now), replies: map[string]chan string{},
	}
	if first.line != nil {
		_, _ = s.out.put(first.line) // a new outbox takes it
	}
	go s.write()
	go s.run(first.uuid)
	return s
}

// Entries yields what the agent does.
func (s *session) Entries() <-chan agent.Entry { return s.entries }

// Outcome tells how the agent ended.
func (s *session) Outcome() agent.Outcome { return s.result }

// Send hands a message to the agent: a turn of its own, or put into the running one
// after its current tool.
func (s *session) Send(ctx context.Context, m agent.Message) error {
	uuid := messageUUID(s.job.ExecutionID, m.ID)
	line, err := userMessage(uuid, m.Text, m.Attachments, "next")
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.teller.turn.sent(uuid)
	s.mu.Unlock()
	if err := s.put(ctx, line); err != nil {
		s.mu.Lock()
		s.teller.turn.taken(uuid) // nothing waits for it
		s.mu.Unlock()
		return fmt.Errorf("send a message: %w", err)
	}
	return nil
}

// Interrupt ends the running turn and what runs in the background beside no turn.
func (s *session) Interrupt(ctx context.Context) error {
	if err := s.call(ctx, request{Subtype: "interrupt"}); err != nil {
		return fmt.Errorf("interrupt: %w", err)
	}
	for _, id := range s.strayTasks() {
		if err := s.call(ctx, request{Subtype: "stop_task", TaskID: id}); err != nil {
			return fmt.Errorf("stop a background task: %w", err)
		}
	}
	return nil
}

// strayTasks are the background tasks that are all that goes on: no turn is there to be
// interrupted, and whoever interrupts means them.
func (s *session) strayTasks() (ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.teller.turn.running {
		return nil
	}
	for id := range s.teller.turn.tasks {
		ids = append(ids, id)
	}
	return ids
}

// Decide answers an open ask.
func (s *session) Decide(ctx context.Context, d agent.Decision) error {
	x, line, err := s.claim(d)
	if err != nil {
		return fmt.Errorf("decide: %w", err)
	}
	if err := s.put(ctx, line); err != nil {
		s.mu.Lock()
		s.teller.asks[d.AskID] = x // it is as open as it was
		s.mu.Unlock()
		return fmt.Errorf("decide: %w", err)
	}
	return nil
}

// claim takes an ask out of those that are open, so that it is answered once.
func (s *session) claim(d agent.Decision) (*ask, []byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.teller.asks[d.AskID]
	if x == nil {
		return nil, nil, errNotAsked
	}
	v, err := x.answer(d)
	if err != nil {
		return nil, nil, err
	}
	line, err := encode(responseLine{
		Type: "control_response", Response: response{Subtype: "success", RequestID: d.AskID, Response: v},
	})
	if err != nil {
		return nil, nil, err
	}
	delete(s.teller.asks, d.AskID)
	if v.Behavior == allow {
		s.teller.allowed[d.AskID] = x.toolUse
	}
	return x, line, nil
}

// Close ends the agent's input: it finishes what it was told and exits.
func (s *session) Close(context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.out.close()
	return nil
}

// call makes a request and waits for its reply.
func (s *session) call(ctx context.Context, r request) error {
	id, reply := s.expect()
	defer s.forget(id)
	line, err := encode(requestLine{Type: "control_request", RequestID: id, Request: r})
	if err != nil {
		return err
	}
	if err := s.put(ctx, line); err != nil {
		return err
	}
	select {
	case refusal := <-reply:
		return refused(refusal)
	case <-ctx.Done():
		return fmt.Errorf("wait for Claude Code: %w", ctx.Err())
	case <-s.gone:
	}
	select { // the reply may have been the last thing that it said
	case refusal := <-reply:
		return refused(refusal)
	default:
		return errGone
	}
}

func refused(why string) error {
	if why == "" {
		return nil
	}
	return errors.New("Claude Code refuses: " + why)
}

func (s *session) expect() (string, <-chan string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastReq++
	id := "threadmill-" + strconv.FormatInt(s.lastReq, 10)
	reply := make(chan string, 1)
	s.replies[id] = reply
	return id, reply
}

func (s *session) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.replies, id)
}

// put hands a line to the writer and waits until it is written.
func (s *session) put(ctx context.Context, line []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l, err := s.out.put(line)
	if err != nil {
		return err
	}
	select {
	case <-l.done:
		return l.err
	case <-ctx.Done():
		if !s.out.withdraw(l) {
			return fmt.Errorf("it is being written and Claude Code does not read: %w", ctx.Err())
		}
		return ctx.Err()
	}
}

// write passes lines to the CLI until its input is to end. A write blocks while the CLI
// does not read, which is why it has its own goroutine.
func (s *session) write() {
	defer close(s.written)
	defer s.proc.Stdin().Close()
	for l := s.out.next(); l != nil; l = s.out.next() {
		s.rt.Wire(agent.WireIn, l.line)
		if _, err := s.proc.Stdin().Write(append(l.line, '\n')); err != nil {
			l.err = fmt.Errorf("write to Claude Code: %w", err)
		}
		close(l.done)
	}
}

// read passes on what the CLI says, to its end.
func (s *session) read(to chan<- said) {
	defer close(to)
	r := lines.NewReader(s.proc.Stdout(), maxLine)
	for {
		line, tooLong, err := r.Next()
		if err != nil {
			return
		}
		s.rt.Wire(agent.WireOut, line)
		if len(line) > 0 {
			to <- s.understand(line, tooLong)
		}
	}
}

func (s *session) understand(line []byte, tooLong bool) said {
	event, err := parse(line)
	if tooLong {
		err = errors.New("it is too long")
	}
	if err == nil {
		return said{event: event}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return said{told: s.teller.garbage(line, err)}
}

// run tells what happens, to the end. uuid names the first message.
func (s *session) run(uuid string) {
	defer close(s.entries)
	s.yield(s.locked(func() []agent.Entry { return s.teller.started(s.proc.Pid(), uuid) }))
	lines := make(chan said)
	go s.read(lines)
	s.follow(lines)
	close(s.gone)
	s.out.abort()
	_ = s.proc.Stdin().Close() // frees a writer that nobody reads from
	st := s.proc.Wait()
	<-s.written
	s.yield(s.locked(s.teller.ended))
	s.result = s.outcome(st)
}

// follow takes lines until there are no more.
func (s *session) follow(lines <-chan said) {
	rest := time.NewTimer(0) // until what should happen by itself has not
	defer rest.Stop()
	<-rest.C
	var last <-chan time.Time // until a failed session is ended
	for {
		select {
		case l, ok := <-lines:
			if !ok {
				return
			}
			if s.take(l) && last == nil {
				last = time.After(endWait)
			}
			s.rest(rest)
		case <-rest.C:
			s.yield(s.locked(s.teller.elapsed))
		case <-last:
			_ = s.proc.Terminate() // gone already is fine too
		}
	}
}

// rest sets the timer for what should happen by itself.
func (s *session) rest(timer *time.Timer) {
	s.mu.Lock()
	wait := s.teller.turn.wait()
	s.mu.Unlock()
	timer.Stop()
	if wait > 0 {
		timer.Reset(wait)
	}
}

// take tells a line and reports whether the session has failed for good.
func (s *session) take(l said) (over bool) {
	s.mu.Lock()
	told := l.told
	if l.event != nil {
		s.answer(l.event)
		told = append(told, s.teller.take(l.event)...)
	}
	failed := s.teller.failed
	s.mu.Unlock()
	s.yield(told)
	if failed == nil || !failed.final {
		return false
	}
	s.giveUp()
	return true
}

// giveUp ends a session in which nothing will work any more: the turn first, which may
// be trying again for minutes, then the input.
func (s *session) giveUp() {
	if line, err := encode(requestLine{Type: "control_request", RequestID: "threadmill-end", Request: request{Subtype: "interrupt"}}); err == nil {
		_, _ = s.out.put(line) // refused where the end has begun
	}
	s.out.close()
}

// answer takes what is not told but has to be answered, or is an answer.
func (s *session) answer(event any) {
	switch e := event.(type) {
	case *evReply:
		if reply, ok := s.replies[e.Response.RequestID]; ok {
			delete(s.replies, e.Response.RequestID)
			reply <- reason(e)
		}
	case *evAsk:
		if e.Request.Subtype == canUseTool {
			return
		}
		refusal := response{Subtype: "error", RequestID: e.RequestID, Error: "Threadmill does not know this request"}
		if line, err := encode(responseLine{Type: "control_response", Response: refusal}); err == nil {
			_, _ = s.out.put(line) // where the end has begun it needs no answer
		}
	}
}

// reason is why a request was refused; empty: it was not.
func reason(e *evReply) string {
	if e.Response.Subtype == "error" && e.Response.Error == "" {
		return "it does not say why"
	}
	if e.Response.Subtype != "error" {
		return ""
	}
	return e.Response.Error
}

func (s *session) locked(f func() []agent.Entry) []agent.Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return f()
}

func (s *session) yield(entries []agent.Entry) {
	for _, e := range entries {
		s.entries <- e
	}
}

// outcome says how the session ended.
func (s *session) outcome(st agent.ExitStatus) agent.Outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := agent.Outcome{Signal: st.Signal}
	if st.Signal == "" {
		out.ExitCode = &st.Code
	}
	f := s.failure(st)
	if f == nil {
		if st.Code != 0 {
			out.ExitCode = nil // 1 after an interrupt: it says nothing about the end
		}
		return out
	}
	details := f.Failure
	out.Reason, out.Message, out.Failure = f.Reason, f.text, &details
	return out
}

func (s *session) failure(st agent.ExitStatus) *failure {
	ending := program.Ending(st)
	switch f := startFailure(st.Tail); {
	case s.teller.failed != nil:
		return s.teller.failed
	case ending == "" && (s.closed || !s.teller.turn.running):
		return nil
	case ending == "":
		return failed(agent.ReasonAgentError, true, "Claude Code ended in the middle of a turn")
	case f != nil:
		return f
	case st.Code == 1 && st.Signal == "" && s.teller.aborted && s.closed:
		return nil
	}
	return failed(agent.ReasonAgentError, true, "Claude Code "+ending)
}
