package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"

	"github.com/threadmill/threadmill/adapters/internal/lines"
)

// errInterrupted ends a turn; errEnded ends the program.
var (
	errInterrupted = errors.New("the turn was interrupted")
	errEnded       = errors.New("the agent is told to end")
)

// fatal is an error that the agent tells and then ends with.
type fatal struct{ event event }

func (f *fatal) Error() string { return f.event.Text }

// player is the demo agent: one goroutine that runs scripts, and one that reads
// requests. Whatever a script waits for, it waits for in [await], where requests are
// served, so there is nothing to lock.
type player struct {
	opts     options
	stderr   io.Writer
	out      *bufio.Writer
	enc      *json.Encoder
	requests <-chan request // nil once the input has ended
	memory   *memory
	ids      int
	asks     map[string]chan request // open ones, each with room for its answer
	pending  []request               // messages that were taken but not yet run
	folding  bool                    // a message is being run inside the turn of another
	inTurn   bool
	usage    usage
}

// usage is what the run has spent.
type usage struct {
	usd    float64
	tokens int64
}

type options struct {
	state      string
	resume     string
	fork       bool
	permission string
}

// Main is the demo agent's program: it reads requests from stdin, writes events to
// stdout and returns its exit code. The goroutine that reads stdin ends with stdin, at
// the latest with the process.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	opts, err := parseFlags(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	requests, quit := make(chan request, 16), make(chan struct{})
	defer close(quit)
	go readRequests(stdin, requests, quit)
	p := &player{
		opts: opts, stderr: stderr, out: bufio.NewWriter(stdout),
		requests: requests, asks: map[string]chan request{},
	}
	p.enc = json.NewEncoder(p.out)
	p.enc.SetEscapeHTML(false)
	return p.run(ctx)
}

func parseFlags(args []string, stderr io.Writer) (options, error) {
	var o options
	fs := flag.NewFlagSet("demo-agent", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&o.state, "state-dir", "", "where sessions are remembered (default ~/.local/state/threadmill-demo)")
	fs.StringVar(&o.resume, "resume", "", "continue the session with this `id`")
	fs.BoolVar(&o.fork, "fork", false, "continue a copy of the session")
	fs.StringVar(&o.permission, "permission", "default", "default, acceptEdits, plan, dontAsk or bypassPermissions")
	fs.Usage = func() {
		fmt.Fprint(stderr, "The demo agent reads requests (JSON lines) on stdin.\n\n", Help(), "\nFlags:\n")
		fs.PrintDefaults()
	}
	return o, fs.Parse(args)
}

// readRequests passes on what can be read. What cannot is dropped: the adapter learns
// of it by the reply that does not come.
func readRequests(stdin io.Reader, to chan<- request, quit <-chan struct{}) {
	defer close(to)
	r := lines.NewReader(stdin, maxLine)
	for {
		line, _, err := r.Next()
		if err != nil {
			return
		}
		req, err := parseRequest(line)
		if err != nil {
			continue
		}
		select {
		case to <- req:
		case <-quit:
			return
		}
	}
}

// run is the life of the program.
func (p *player) run(ctx context.Context) int {
	err := p.converse(ctx)
	if f, ok := errors.AsType[*fatal](err); ok {
		p.emit(f.event)
	}
	if ferr := p.out.Flush(); ferr != nil && err == nil {
		err = ferr
	}
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errEnded):
		return 143 // as a program that SIGTERM ended
	}
	return 1
}

func (p *player) converse(ctx context.Context) error {
	m, err := openMemory(p.opts)
	if err != nil {
		return err
	}
	defer m.close()
	p.memory = m
	p.emit(event{Type: evHello, Session: m.id})
	for {
		next, err := p.nextMessage(ctx)
		if err != nil || next == nil {
			return err
		}
		if err := p.turn(ctx, *next); err != nil {
			return err
		}
	}
}

// nextMessage waits for what begins the next turn; nil means that nothing will.
func (p *player) nextMessage(ctx context.Context) (*request, error) {
	for {
		if len(p.pending) > 0 {
			next := p.pending[0]
			p.pending = p.pending[1:]
			return &next, nil
		}
		if p.requests == nil {
			return nil, nil
		}
		if err := p.out.Flush(); err != nil {
			return nil, fmt.Errorf("write events: %w", err)
		}
		select {
		case r, ok := <-p.requests:
			if !ok {
				p.requests = nil
			} else if err := p.serve(ctx, r); err != nil {
				return nil, err
			}
		case <-ctx.Done():
			return nil, errEnded
		}
	}
}

// turn runs a message and those that were steered into it. Only an error that ends the
// program comes back.
func (p *player) turn(ctx context.Context, m request) error {
	p.inTurn = true
	p.emit(event{Type: evTurn, State: turnStarted, Message: m.ID})
	p.reply(m, "")
	err := p.follow(ctx, m)
	if err == nil {
		err = p.fold(ctx)
	}
	p.inTurn, p.folding = false, false
	p.withdraw()
	switch {
	case err == nil:
		p.emit(event{Type: evTurn, State: turnDone, Message: m.ID})
	case errors.Is(err, errInterrupted):
		p.emit(event{Type: evTurn, State: turnInterrupted, Message: m.ID})
	default:
		return err
	}
	return nil
}

// fold runs the messages that came into the turn, in order.
func (p *player) fold(ctx context.Context) error {
	p.folding = true
	defer func() { p.folding = false }()
	for len(p.pending) > 0 {
		m := p.pending[0]
		p.pending = p.pending[1:]
		if err := p.follow(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// serve does what a request asks for. Its error is what ends the running step.
func (p *player) serve(ctx context.Context, r request) error {
	switch r.Op {
	case opMessage:
		return p.take(ctx, r)
	case opInterrupt:
		p.reply(r, "")
		if p.inTurn {
			return errInterrupted
		}
	case opDecide:
		p.reply(r, p.decide(r))
	default:
		p.reply(r, fmt.Sprintf("unknown request %q", r.Op))
	}
	return nil
}

// take puts a message in line, and runs it now where a turn is waiting.
func (p *player) take(ctx context.Context, r request) error {
	if p.inTurn {
		p.reply(r, "")
		r.Req = 0 // it has its reply; otherwise the turn that it begins replies
	}
	p.pending = append(p.pending, r)
	if !p.inTurn || p.folding {
		return nil
	}
	return p.fold(ctx)
}

// decide hands an answer to the step that waits for it, or says why not.
func (p *player) decide(r request) string {
	ask, ok := p.asks[r.ID]
	if !ok {
		return fmt.Sprintf("nothing waits for an answer to %q", r.ID)
	}
	if len(r.Input) > 0 && r.Allow {
		if _, err := commandOf(r.Input); err != nil {
			return err.Error()
		}
	}
	if r.Expired && r.Text == "" {
		r.Text = "nobody decided in time"
	}
	delete(p.asks, r.ID)
	ask <- r
	return ""
}

// withdraw closes the asks that a turn leaves behind.
func (p *player) withdraw() {
	for id := range p.asks {
		delete(p.asks, id)
		p.emit(event{Type: evWithdraw, ID: id})
	}
}

// await waits for done and serves requests meanwhile.
func await[T any](ctx context.Context, p *player, done <-chan T) (T, error) {
	var none T
	for {
		if err := p.out.Flush(); err != nil {
			return none, fmt.Errorf("write events: %w", err)
		}
		select {
		case v := <-done:
			return v, nil
		case <-ctx.Done():
			return none, errEnded
		case r, ok := <-p.requests:
			if err := p.heard(ctx, r, ok); err != nil {
				return none, err
			}
		}
	}
}

// poll serves the requests that are there, without waiting.
func (p *player) poll(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return errEnded
		case r, ok := <-p.requests:
			if err := p.heard(ctx, r, ok); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

// heard takes what came from the input. After its end nobody can answer: what is asked
// is answered by that.
func (p *player) heard(ctx context.Context, r request, ok bool) error {
	if ok {
		return p.serve(ctx, r)
	}
	p.requests = nil
	for id, ask := range p.asks {
		delete(p.asks, id)
		p.emit(event{Type: evWithdraw, ID: id})
		ask <- request{Text: "nobody is there to answer"}
	}
	return nil
}

// emit writes an event; it is flushed before the program waits for anything. A write
// error stays in the writer and is met at the next flush.
func (p *player) emit(e event) {
	_ = p.enc.Encode(e)
}

func (p *player) reply(r request, refusal string) {
	if r.Req > 0 {
		p.emit(event{Type: evReply, Req: r.Req, Text: refusal})
	}
}

// newID names a thing of this run.
func (p *player) newID(kind string) string {
	p.ids++
	return fmt.Sprintf("%s%d", kind, p.ids)
}
