package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/threadmill/threadmill/adapters/internal/lines"
	"github.com/threadmill/threadmill/adapters/internal/program"
	"github.com/threadmill/threadmill/engine/agent"
)

var (
	errGone    = errors.New("the demo agent has ended")
	errClosing = errors.New("the demo agent was asked to end and takes nothing more")
)

// session is a started demo agent. One goroutine reads its events, one writes to it;
// the reader outlives the writer and closes entries.
type session struct {
	proc    agent.Process
	rt      agent.Runtime
	entries chan agent.Entry
	out     chan []byte   // lines for the agent; room for the first message
	closing chan struct{} // closed by Close
	gone    chan struct{} // closed when the agent's output has ended
	written chan struct{} // closed when the writer has ended
	close   func()

	mu      sync.Mutex
	lastReq int64
	replies map[int64]chan string // requests that wait for their reply

	teller teller        // the reader's
	failed *event        // the reader's: the error that the agent ended with
	result agent.Outcome // written before entries is closed, read after
}

func newSession(proc agent.Process, rt agent.Runtime, job agent.Job) *session {
	s := &session{
		proc: proc, rt: rt,
		entries: make(chan agent.Entry, 16), out: make(chan []byte, 1),
		closing: make(chan struct{}), gone: make(chan struct{}), written: make(chan struct{}),
		replies: map[int64]chan string{}, teller: newTeller(),
	}
	s.close = sync.OnceFunc(func() { close(s.closing) })
	if job.Prompt != "" || len(job.Attachments) > 0 {
		s.out <- encode(request{Op: opMessage, ID: "prompt", Text: job.Prompt, Files: job.Attachments})
	}
	go s.write()
	go s.read(job.Prompt != "" || len(job.Attachments) > 0)
	return s
}

// Entries yields what the agent does.
func (s *session) Entries() <-chan agent.Entry { return s.entries }

// Outcome tells how the agent ended.
func (s *session) Outcome() agent.Outcome { return s.result }

// Send hands a message to the agent and waits until it has taken it.
func (s *session) Send(ctx context.Context, m agent.Message) error {
	return s.call(ctx, request{Op: opMessage, ID: m.ID, Text: m.Text, Files: m.Attachments})
}

// Interrupt ends the running turn.
func (s *session) Interrupt(ctx context.Context) error {
	return s.call(ctx, request{Op: opInterrupt})
}

// Decide answers an open ask.
func (s *session) Decide(ctx context.Context, d agent.Decision) error {
	return s.call(ctx, request{
		Op: opDecide, ID: d.AskID, Text: d.Message, Allow: d.Allow, Stop: d.Interrupt,
		Expired: d.TimedOut, Input: d.ModifiedInput, Answers: d.Answers,
	})
}

// Close ends the agent's input.
func (s *session) Close(context.Context) error {
	s.close()
	return nil
}

// call sends a request and waits for the agent's reply.
func (s *session) call(ctx context.Context, r request) error {
	reply := s.expect(&r)
	defer s.forget(r.Req)
	if err := s.put(ctx, encode(r)); err != nil {
		return fmt.Errorf("%s: %w", r.Op, err)
	}
	select {
	case refusal := <-reply:
		return refused(r.Op, refusal)
	case <-ctx.Done():
		return fmt.Errorf("%s: wait for the agent: %w", r.Op, ctx.Err())
	case <-s.gone:
	}
	select { // the reply may have been the last thing that it said
	case refusal := <-reply:
		return refused(r.Op, refusal)
	default:
		return fmt.Errorf("%s: %w", r.Op, errGone)
	}
}

func refused(o op, why string) error {
	if why == "" {
		return nil
	}
	return fmt.Errorf("%s: the demo agent refuses: %s", o, why)
}

// put hands a line to the writer.
func (s *session) put(ctx context.Context, line []byte) error {
	select {
	case <-s.gone:
		return errGone
	case <-s.closing:
		return errClosing
	default:
	}
	select {
	case s.out <- line:
		return nil
	case <-s.closing:
		return errClosing
	case <-s.gone:
		return errGone
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *session) expect(r *request) <-chan string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastReq++
	r.Req = s.lastReq
	reply := make(chan string, 1)
	s.replies[r.Req] = reply
	return reply
}

func (s *session) forget(req int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.replies, req)
}

// answered passes a reply on; one that nobody waits for any more is dropped.
func (s *session) answered(e event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if reply, ok := s.replies[e.Req]; ok {
		delete(s.replies, e.Req)
		reply <- e.Text
	}
}

// write passes lines to the agent until its input is to end. A write blocks while the
// agent does not read, which is why it has its own goroutine; it fails once the agent
// is gone, which the reader reports.
func (s *session) write() {
	defer close(s.written)
	defer s.proc.Stdin().Close()
	for {
		select {
		case line := <-s.out:
			s.writeLine(line)
		case <-s.gone:
			return
		case <-s.closing:
			select {
			case line := <-s.out: // said before the end
				s.writeLine(line)
			default:
			}
			return
		}
	}
}

func (s *session) writeLine(line []byte) {
	s.rt.Wire(agent.WireIn, line)
	_, _ = s.proc.Stdin().Write(append(line, '\n'))
}

// read reports what the agent does, to its end.
func (s *session) read(working bool) {
	defer close(s.entries)
	s.yield(s.teller.started(s.proc.Pid(), working))
	r := lines.NewReader(s.proc.Stdout(), maxLine)
	for {
		line, _, err := r.Next()
		if err != nil {
			break
		}
		s.rt.Wire(agent.WireOut, line)
		s.take(line)
	}
	close(s.gone)
	st := s.proc.Wait()
	<-s.written
	unfinished := s.teller.working
	s.yield(s.teller.ended())
	s.result = outcomeOf(st, s.failed, unfinished)
}

func (s *session) take(line []byte) {
	if len(line) == 0 {
		return
	}
	e, err := parseEvent(line)
	switch {
	case err != nil:
		s.rt.Print(agent.System, "demo agent: a line was not understood: "+program.Clip(err.Error(), clipError)+"\n")
	case e.Type == evReply:
		s.answered(e)
	default:
		if e.Type == evError {
			s.failed = &e
		}
		s.yield(s.teller.entries(e))
	}
}

func (s *session) yield(entries []agent.Entry) {
	for _, e := range entries {
		s.entries <- e
	}
}

// clipError bounds what is printed of a line that was not understood.
const clipError = 200

func outcomeOf(st agent.ExitStatus, failed *event, unfinished bool) agent.Outcome {
	out := agent.Outcome{Signal: st.Signal}
	if st.Signal == "" {
		out.ExitCode = &st.Code
	}
	ending := program.Ending(st)
	if ending == "" && unfinished {
		ending = "ended in the middle of a turn"
	}
	switch {
	case failed != nil:
		out.Reason, out.Message = failed.Reason, failed.Text
		out.Failure = &agent.Failure{Reason: failed.Reason, ResetsAt: failed.ResetsAt}
	case ending != "":
		out.Reason, out.Message = agent.ReasonAgentError, "the demo agent "+ending
		out.Failure = &agent.Failure{Reason: out.Reason}
	}
	return out
}

// encode writes a request; its fields always encode, but for a decision's input, which
// was valid JSON when the decision was taken.
func encode(r request) []byte {
	if !json.Valid(r.Input) {
		r.Input = nil
	}
	b, err := json.Marshal(r)
	if err != nil {
		return []byte("{}")
	}
	return b
}
