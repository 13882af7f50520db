package web

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/threadmill/threadmill/bot/web/api"
	"github.com/threadmill/threadmill/engine"
)

func (s *Server) listTasks(r *http.Request) (answer, error) {
	q := readQuery(r)
	status := engine.TaskStatus(q.oneOf("status", "", string(engine.Todo), string(engine.InProgress), string(engine.Review), string(engine.Done)))
	page, size := q.page()
	if err := q.done(); err != nil {
		return answer{}, err
	}
	list, total, err := s.engine.Tasks(r.Context(), status, page, size)
	if err != nil {
		return answer{}, err
	}
	return answer{data: notNil(list), meta: &api.Meta{Page: page, PageSize: size, Total: &total}}, nil
}

func (s *Server) createTask(r *http.Request) (answer, error) {
	var b api.TaskRequest
	if err := readBody(r, &b, false); err != nil {
		return answer{}, err
	}
	if strings.TrimSpace(b.Title) == "" {
		return answer{}, engine.Errorf(engine.CodeInvalid, "field \"title\": a task needs a title")
	}
	t, err := s.engine.CreateTask(r.Context(), engine.Task{
		Title: b.Title, Context: b.Context, DocsPath: b.DocsPath, CapabilityID: b.CapabilityID, CreatedBy: actor(r),
	})
	return answer{status: http.StatusCreated, data: t, location: "/api/tasks/" + t.ID}, err
}

func (s *Server) showTask(r *http.Request) (answer, error) {
	t, err := s.engine.Task(r.Context(), r.PathValue("id"))
	return answer{data: t}, err
}

func (s *Server) runTask(r *http.Request) (answer, error) {
	var b api.RunRequest
	if err := readBody(r, &b, true); err != nil {
		return answer{}, err
	}
	x, err := s.engine.RunTask(r.Context(), r.PathValue("id"), engine.Request{
		Capability: b.Capability, Agent: b.Agent, Args: b.Args, Text: b.Text, Once: b.Once, By: actor(r),
	})
	if err != nil {
		return answer{}, err
	}
	return ok(started(s.awaitPid(r.Context(), x)))
}

// pidPatience is how long the answer to "run" waits for the agent's process.
const pidPatience = 2 * time.Second

// awaitPid waits a moment until the agent's process is known, so that the answer can
// name it. An execution that waits in the queue is answered as such.
func (s *Server) awaitPid(ctx context.Context, x engine.Execution) engine.Execution {
	ctx, cancel := context.WithTimeout(ctx, pidPatience)
	defer cancel()
	bell, stop := s.engine.Watch(x.ID)
	defer stop()
	for x.Pid == 0 && !x.Status.Ended() {
		if now, err := s.engine.Execution(ctx, x.ID); err == nil {
			x = now
		}
		if x.Pid != 0 || x.Status.Ended() {
			break
		}
		select {
		case <-bell:
		case <-ctx.Done():
			return x
		case <-s.stopping:
			return x
		}
	}
	return x
}

// started is the answer to "run". One that has ended already was running.
func started(x engine.Execution) api.Started {
	status := engine.Running
	if x.Status == engine.Queued {
		status = engine.Queued
	}
	return api.Started{Status: status, Pid: x.Pid, ExecutionID: x.ID, Number: x.Number}
}

func (s *Server) stopTask(r *http.Request) (answer, error) {
	if err := readBody(r, &struct{}{}, true); err != nil {
		return answer{}, err
	}
	x, err := s.engine.StopTask(r.Context(), r.PathValue("id"), actor(r))
	return answer{data: api.Stopping{Status: "stopping", ExecutionID: x.ID, Number: x.Number}}, err
}
