package engine

import (
	"context"
	"errors"
	"maps"
	"strings"

	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/rundir"
	"github.com/threadmill/threadmill/engine/safety"
)

// Request asks for an execution.
type Request struct {
	Capability     string
	Agent          string // instead of the capability's own
	Args           map[string]any
	Text           string // what the agent is told; {{text}} in a prompt template
	Title          string // of the new task; empty: made from the text
	TaskID         string // the conversation it belongs to; empty: a new one
	ParentID       string // the execution it follows; id or number
	Resume         bool   // continue the parent's session
	Fork           bool   // … in a copy of it
	Once           bool   // end with the first turn instead of staying up for replies
	Attachments    []string
	IdempotencyKey string
	By             string

	taskFree bool // only where the task has no execution that goes on
}

// Submit checks a request, resolves it to exactly what will be run, and stores it as
// a queued execution. With an idempotency key that was seen before it returns the
// earlier execution and created = false.
func (e *Engine) Submit(ctx context.Context, q Request) (x Execution, created bool, err error) {
	n, err := e.resolve(ctx, q)
	if err != nil {
		return Execution{}, false, err
	}
	x, created, err = e.store.CreateExecution(ctx, n)
	if err != nil {
		return Execution{}, false, err
	}
	if created {
		e.log.InfoContext(ctx, "execution queued", "execution", x.ID, "number", x.Number, "capability", x.CapabilityID, "by", x.RequestedBy)
		e.bell.ring()
		e.watchers.ring(x.ID)
	}
	return x, created, nil
}

// resolve turns a request into an execution that can be stored, or says why not.
func (e *Engine) resolve(ctx context.Context, q Request) (NewExecution, error) {
	if err := q.clean(); err != nil {
		return NewExecution{}, err
	}
	parent, task, err := e.lineage(ctx, &q)
	if err != nil {
		return NewExecution{}, err
	}
	cat := e.catalog.Load()
	c, a, err := cat.choose(q)
	if err != nil {
		return NewExecution{}, err
	}
	if err := e.suits(c, a); err != nil {
		return NewExecution{}, err
	}
	x := Execution{
		ID: rundir.NewID(), AgentID: a.ID, CapabilityID: c.ID, ParentID: parent.ID, Status: Queued, Mode: c.Mode,
		Once: q.Once || c.Mode == ModeTemplate, RequestedBy: q.By, CreatedAt: e.now().UTC(), Attachments: q.Attachments,
		IdempotencyKey: q.IdempotencyKey, Budget: a.Budget.runBudget(),
	}
	if err := e.resume(&x, q, parent, a); err != nil {
		return NewExecution{}, err
	}
	if q.Resume && !q.Fork {
		if err := e.notParked(ctx, parent); err != nil {
			return NewExecution{}, err
		}
	}
	if x.Dir, err = workingDir(c, a, cat.AllowedDirs); err != nil {
		return NewExecution{}, err
	}
	if task.ID == "" {
		task = newTask(x, c, q)
	}
	x.TaskID = task.ID
	if x.Args, err = cat.schemas[c.ID].Check(q.Args); err != nil {
		return NewExecution{}, refusal("capability "+c.ID, err)
	}
	if c.Mode == ModeTemplate {
		err = e.fillCommand(&x, cat.schemas[c.ID], c, a, q)
	} else {
		err = fillPrompt(&x, c, task, q)
	}
	if err != nil {
		return NewExecution{}, err
	}
	return NewExecution{
		Execution: x, Task: task, RejectAt: rejectAt(a), TaskFree: q.taskFree,
		Caps:  cat.capsOf(a.ID, x.RequestedBy, x.CreatedAt),
		Audit: Audit{At: x.CreatedAt, Actor: q.By, Action: "execution.create", Object: x.ID, Allowed: true, Detail: map[string]any{"capability": c.ID, "agent": a.ID}},
	}, nil
}

// clean checks the words of a request: what shows them later must be safe from them.
func (q *Request) clean() (err error) {
	if q.Text, err = safety.Text("text", q.Text); err != nil {
		return refusal("the request", err)
	}
	if q.Title, err = safety.Text("title", q.Title); err != nil {
		return refusal("the request", err)
	}
	return nil
}

// lineage finds the parent and the task that a request names, and lets the request
// inherit from them what it leaves out.
func (e *Engine) lineage(ctx context.Context, q *Request) (parent Execution, task Task, err error) {
	if q.ParentID != "" {
		if parent, err = e.store.Execution(ctx, q.ParentID); err != nil {
			return parent, task, err
		}
		if q.TaskID != "" && q.TaskID != parent.TaskID {
			return parent, task, Errorf(CodeInvalid, "execution #%d belongs to another task than %s", parent.Number, q.TaskID)
		}
		q.TaskID = parent.TaskID
		if q.Capability == "" {
			q.Capability, q.Agent = parent.CapabilityID, parent.AgentID
		}
	}
	if q.TaskID != "" {
		if task, err = e.store.Task(ctx, q.TaskID); err != nil {
			return parent, task, err
		}
		if q.Capability == "" {
			q.Capability = task.CapabilityID
		}
	}
	return parent, task, nil
}

// choose finds the capability and the agent of a request.
func (c *catalog) choose(q Request) (Capability, Agent, error) {
	if q.Capability == "" {
		return Capability{}, Agent{}, Errorf(CodeInvalid, "no capability was named; see `threadmill capabilities`")
	}
	cp, ok := c.Capabilities[q.Capability]
	if !ok {
		return cp, Agent{}, Errorf(CodeNotFound, "there is no capability %q; see `threadmill capabilities`", q.Capability)
	}
	id := cp.AgentID
	if q.Agent != "" {
		id = q.Agent
	}
	a, ok := c.Agents[id]
	if !ok {
		return cp, a, Errorf(CodeNotFound, "there is no agent %q; see `threadmill agents`", id)
	}
	return cp, a, nil
}

// suits refuses an agent that a request names instead of the capability's own and
// that cannot run it: a command's tokens are no agent's options.
func (e *Engine) suits(c Capability, a Agent) error {
	adapter, ok := e.adapters[a.Adapter]
	if !ok || a.ID == c.AgentID {
		return nil // the catalog's own pair was checked when it was loaded
	}
	switch commands := adapter.Traits().Commands; {
	case commands && c.Mode == ModePrompt:
		return Errorf(CodeInvalid, "agent %s runs commands and takes no prompts: capability %s needs another one", a.ID, c.ID)
	case !commands && c.Mode == ModeTemplate:
		return Errorf(CodeInvalid, "agent %s takes prompts: capability %s is a command and needs an agent that runs commands", a.ID, c.ID)
	}
	return nil
}

// resume makes x continue its parent's session where the request says so.
func (e *Engine) resume(x *Execution, q Request, parent Execution, a Agent) error {
	if !q.Resume && !q.Fork {
		return nil
	}
	adapter, ok := e.adapters[a.Adapter]
	if !ok {
		return Errorf(CodeInvalid, "agent %s: there is no adapter %q", a.ID, a.Adapter)
	}
	switch t := adapter.Traits(); {
	case parent.ID == "":
		return Errorf(CodeInvalid, "to resume needs the execution to resume")
	case a.ID != parent.AgentID:
		return Errorf(CodeInvalid, "execution #%d was run by %s; %s cannot resume its session", parent.Number, parent.AgentID, a.ID)
	case !t.Resume, q.Fork && !t.Fork:
		return Errorf(CodeUnsupported, "agent %s cannot continue a finished session: start a new run", a.ID)
	case parent.SessionRef == "":
		return Errorf(CodeConflict, "execution #%d left no session to continue: start a new run", parent.Number)
	case !q.Fork && !parent.Status.Ended():
		return Errorf(CodeConflict, "execution #%d is still %s: send it a message, or fork it", parent.Number, parent.Status)
	}
	x.SessionRef, x.Fork = parent.SessionRef, q.Fork
	return nil
}

// workingDir resolves where a capability runs and holds it against the allowlist.
func workingDir(c Capability, a Agent, allowed []string) (string, error) {
	dir := a.WorkingDir
	if c.WorkingDir != "" {
		dir = c.WorkingDir
	}
	resolved, err := safety.WorkingDir(dir, allowed)
	if err != nil {
		return "", refusal("working directory of "+c.ID, err)
	}
	return resolved, nil
}

// fillCommand puts the command line that the arguments make into x.
func (e *Engine) fillCommand(x *Execution, schema *safety.Schema, c Capability, a Agent, q Request) error {
	if q.Text != "" {
		return Errorf(CodeInvalid, "capability %s runs a command and takes no text; give its arguments as key=value", c.ID)
	}
	argv, err := safety.Tokens(c.Command, x.Args, schema)
	if err != nil {
		return refusal("capability "+c.ID, err)
	}
	path := pathOf(e.agentEnv(a, nil))
	if argv[0], err = safety.LookPath(argv[0], path, x.Dir); err != nil {
		return refusal("capability "+c.ID, err)
	}
	x.Argv = argv
	return nil
}

// fillPrompt puts what the agent is told into x: the template with the arguments, the
// text and the facts of the task, or the text alone where there is no template.
func fillPrompt(x *Execution, c Capability, task Task, q Request) error {
	if q.Text == "" && q.taskFree {
		q.Text = task.brief()
	}
	values := map[string]any{"text": q.Text, "title": task.Title, "context": task.Context, "docs_path": task.DocsPath}
	maps.Copy(values, x.Args)
	prompt, err := safety.Prompt(c.Prompt, values)
	if err != nil {
		return refusal("capability "+c.ID, err)
	}
	if !strings.Contains(c.Prompt, "{{text}}") && q.Text != "" {
		prompt = strings.TrimSpace(prompt + "\n\n" + q.Text)
	}
	if strings.TrimSpace(prompt) == "" && x.SessionRef == "" {
		return Errorf(CodeInvalid, "capability %s needs a text: say what is to be done", c.ID)
	}
	x.Prompt = prompt
	return nil
}

// refusal turns a safety check's error into one for the person who asked.
func refusal(what string, err error) error {
	code := CodeInvalid
	if problem := (*safety.Error)(nil); errors.As(err, &problem) && problem.Missing {
		code = CodeNotFound
	}
	return Errorf(code, "%s: %w", what, err)
}

func pathOf(env []string) string {
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			return v
		}
	}
	return ""
}

// rejectAt is the number of executions from which an agent refuses new ones.
func rejectAt(a Agent) int {
	if a.OnBusy == BusyReject {
		return a.MaxConcurrent
	}
	return 0
}

func newTask(x Execution, c Capability, q Request) Task {
	title := q.Title
	if title == "" {
		title, _, _ = strings.Cut(strings.TrimSpace(q.Text), "\n")
	}
	if title == "" {
		title = c.Label
	}
	return Task{
		ID: rundir.NewID(), Title: shorten(title, 120), CapabilityID: c.ID, Status: InProgress,
		CreatedBy: x.RequestedBy, CreatedAt: x.CreatedAt, UpdatedAt: x.CreatedAt,
	}
}

// shorten cuts s to at most n characters.
func shorten(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n-1]) + "…"
}

// Retry starts an execution again, with the same capability and arguments, in the
// same task.
func (e *Engine) Retry(ctx context.Context, ref, by string) (Execution, error) {
	old, err := e.store.Execution(ctx, ref)
	if err != nil {
		return Execution{}, err
	}
	if !old.Status.Ended() {
		return Execution{}, Errorf(CodeConflict, "execution #%d is still %s: cancel it first", old.Number, old.Status)
	}
	again, err := e.resolve(ctx, Request{
		Capability: old.CapabilityID, Agent: old.AgentID, Args: old.Args, Text: old.Prompt, ParentID: old.ID,
		Once: old.Once, Attachments: old.Attachments, By: by,
	}.withoutText(old.Mode))
	if err != nil {
		return Execution{}, err
	}
	again.Execution.Prompt = old.Prompt // as it was sent, not put through the template twice
	x, _, err := e.store.CreateExecution(ctx, again)
	e.bell.ring()
	return x, err
}

// withoutText drops the text for a command, which takes none.
func (q Request) withoutText(m Mode) Request {
	if m == ModeTemplate {
		q.Text = ""
	}
	return q
}

// Resume starts a child execution that continues the session of a finished one, or,
// with fork, of a copy of it.
func (e *Engine) Resume(ctx context.Context, ref, text, by string, fork bool) (Execution, error) {
	old, err := e.store.Execution(ctx, ref)
	if err != nil {
		return Execution{}, err
	}
	return e.resumeAs(ctx, old, Request{Text: text, By: by, Fork: fork, Once: old.Once})
}

// resumeAs continues old's session with the text alone: the session knows the rest.
func (e *Engine) resumeAs(ctx context.Context, old Execution, q Request) (Execution, error) {
	q.Capability, q.Agent, q.Args, q.ParentID, q.Resume = old.CapabilityID, old.AgentID, old.Args, old.ID, true
	n, err := e.resolve(ctx, q)
	if err != nil {
		return Execution{}, err
	}
	n.Execution.Prompt = q.Text
	x, _, err := e.store.CreateExecution(ctx, n)
	e.bell.ring()
	return x, err
}

// traits reports the traits of an execution's agent, as far as it is configured.
func (e *Engine) traits(agentID string) agent.Traits {
	if a, ok := e.catalog.Load().Agents[agentID]; ok {
		if adapter, ok := e.adapters[a.Adapter]; ok {
			return adapter.Traits()
		}
	}
	return agent.Traits{}
}
