package web

import (
	"net/http"
	"slices"
	"strings"

	"github.com/threadmill/threadmill/bot/web/api"
	"github.com/threadmill/threadmill/engine"
)

func (s *Server) listExecutions(r *http.Request) (answer, error) {
	q := readQuery(r)
	f := engine.Filter{TaskID: q.text("taskId"), AgentID: q.text("agentId"), Statuses: statuses(q)}
	f.Page, f.PageSize = q.page()
	if err := q.done(); err != nil {
		return answer{}, err
	}
	page, total, err := s.engine.Executions(r.Context(), f)
	if err != nil {
		return answer{}, err
	}
	return answer{data: notNil(page), meta: &api.Meta{Page: f.Page, PageSize: f.PageSize, Total: &total}}, nil
}

// statuses takes the parameter that selects executions by status.
func statuses(q *query) []engine.Status {
	var out []engine.Status
	for _, word := range q.all("status") {
		st := engine.Status(word)
		if !st.Valid() {
			q.problem("parameter \"status\": there is no status %q; there are %s", word, allStatuses())
		}
		out = append(out, st)
	}
	return out
}

func allStatuses() string {
	var words []string
	for _, st := range engine.Statuses() {
		words = append(words, string(st))
	}
	return strings.Join(words, ", ")
}

// notNil makes an empty list [] rather than null in JSON.
func notNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func (s *Server) createExecution(r *http.Request) (answer, error) {
	var b api.CreateRequest
	if err := readBody(r, &b, false); err != nil {
		return answer{}, err
	}
	x, isNew, err := s.engine.Submit(r.Context(), engine.Request{
		Capability: b.Capability, Agent: b.Agent, Args: b.Args, Text: b.Text, Title: b.Title,
		TaskID: b.TaskID, ParentID: b.ParentID, Resume: b.Resume, Fork: b.Fork, Once: b.Once,
		IdempotencyKey: b.IdempotencyKey, By: actor(r),
	})
	switch {
	case err != nil:
		return answer{}, err
	case !isNew:
		return ok(x) // the idempotency key was seen: this is what it made then
	}
	return created(x), nil
}

func (s *Server) showExecution(r *http.Request) (answer, error) {
	x, err := s.engine.Execution(r.Context(), r.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	d := api.Detail{Execution: x}
	if a, found := s.engine.Agent(x.AgentID); found {
		a.Options = nil // they may hold secrets
		d.Agent = &a
	}
	if c, found := s.engine.Capability(x.CapabilityID); found {
		d.Capability = &c
	}
	return ok(d)
}

func (s *Server) cancelExecution(r *http.Request) (answer, error) {
	var b api.CancelRequest
	if err := readBody(r, &b, true); err != nil {
		return answer{}, err
	}
	x, err := s.engine.Cancel(r.Context(), r.PathValue("id"), actor(r), b.Force)
	return answer{status: http.StatusAccepted, data: x}, err
}

func (s *Server) sendMessage(r *http.Request) (answer, error) {
	var b api.MessageRequest
	if err := readBody(r, &b, false); err != nil {
		return answer{}, err
	}
	switch {
	case strings.TrimSpace(b.Text) == "":
		return answer{}, engine.Errorf(engine.CodeInvalid, "field \"text\": a message needs a text")
	case b.OnBusy != "" && !slices.Contains([]engine.OnBusy{engine.BusyQueue, engine.BusySteer, engine.BusyReject}, b.OnBusy):
		return answer{}, engine.Errorf(engine.CodeInvalid, "field \"onBusy\" is %q: it can be queue, steer, reject", b.OnBusy)
	}
	c, err := s.engine.Send(r.Context(), r.PathValue("id"), engine.MessageRequest{
		ID: b.ID, Text: b.Text, By: actor(r), OnBusy: b.OnBusy,
	})
	if err != nil {
		return answer{}, err
	}
	return sent(c, http.StatusOK)
}

// sent answers with what became of an order. One that nobody will carry out is an
// error, whatever the engine calls it.
func sent(c engine.Command, status int) (answer, error) {
	if c.State == engine.Refused || c.State == engine.Undelivered {
		return answer{}, engine.Errorf(engine.CodeConflict, "%s", orderError(c))
	}
	return answer{status: status, data: api.Sent{Sent: true, ID: c.ID, State: c.State, How: c.How}}, nil
}

func orderError(c engine.Command) string {
	switch {
	case c.Error != "":
		return c.Error
	case c.State == engine.Undelivered:
		return "the execution ended before the agent had it"
	}
	return "the agent refused it"
}

func (s *Server) interruptExecution(r *http.Request) (answer, error) {
	if err := readBody(r, &struct{}{}, true); err != nil {
		return answer{}, err
	}
	c, err := s.engine.Interrupt(r.Context(), r.PathValue("id"), actor(r))
	if err != nil {
		return answer{}, err
	}
	return sent(c, http.StatusAccepted)
}

func (s *Server) retryExecution(r *http.Request) (answer, error) {
	if err := readBody(r, &struct{}{}, true); err != nil {
		return answer{}, err
	}
	x, err := s.engine.Retry(r.Context(), r.PathValue("id"), actor(r))
	return created(x), err
}

func (s *Server) forkExecution(r *http.Request) (answer, error) {
	var b api.ForkRequest
	if err := readBody(r, &b, true); err != nil {
		return answer{}, err
	}
	x, err := s.engine.Resume(r.Context(), r.PathValue("id"), b.Text, actor(r), true)
	return created(x), err
}

func (s *Server) listCommands(r *http.Request) (answer, error) {
	list, err := s.engine.Commands(r.Context(), r.PathValue("id"))
	return answer{data: notNil(list)}, err
}
