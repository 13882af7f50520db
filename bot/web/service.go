package web

import (
	_ "embed"
	"net/http"
	"strings"

	"github.com/threadmill/threadmill/bot/web/api"
	"github.com/threadmill/threadmill/engine"
)

//go:embed openapi.yaml
var openAPI []byte

func serveOpenAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/yaml; charset=utf-8")
	_, _ = w.Write(openAPI) // a client that has gone needs no answer
}

// agents lists the agents without their adapter options, which may hold secrets.
func (s *Server) agents(r *http.Request) ([]engine.AgentView, error) {
	views, err := s.engine.Agents(r.Context())
	if err != nil {
		return nil, err
	}
	for i := range views {
		views[i].Options = nil
	}
	return notNil(views), nil
}

func (s *Server) listAgents(r *http.Request) (answer, error) {
	views, err := s.agents(r)
	return answer{data: views}, err
}

func (s *Server) listCapabilities(*http.Request) (answer, error) {
	return ok(notNil(s.engine.Capabilities()))
}

func (s *Server) listWorkers(r *http.Request) (answer, error) {
	list, err := s.engine.Workers(r.Context())
	return answer{data: notNil(list)}, err
}

func (s *Server) listAudit(r *http.Request) (answer, error) {
	q := readQuery(r)
	f := engine.AuditFilter{
		Object: q.text("object"), Actor: q.text("actor"),
		Before: q.number("before", 0, 1, 1<<53), PageSize: int(q.number("pageSize", 100, 1, 500)),
	}
	if err := q.done(); err != nil {
		return answer{}, err
	}
	rows, err := s.engine.AuditTrail(r.Context(), f)
	meta := &api.Meta{PageSize: f.PageSize}
	if len(rows) == f.PageSize {
		meta.Next = rows[len(rows)-1].ID
	}
	return answer{data: notNil(rows), meta: meta}, err
}

func (s *Server) showVersion(*http.Request) (answer, error) { return ok(s.version) }

// alive answers as long as the process can answer at all.
func (s *Server) alive(*http.Request) (answer, error) {
	return ok(map[string]string{"status": "ok"})
}

// readiness says whether the service can take work, and which check says no.
func (s *Server) readiness(w http.ResponseWriter, r *http.Request) {
	h := s.health(r)
	if h.Ready {
		s.write(w, r, http.StatusOK, api.Envelope{Data: h})
		return
	}
	w.Header().Set("Retry-After", "1")
	s.write(w, r, http.StatusServiceUnavailable, api.NotReady{
		Error: api.Error{Error: "not ready: " + reasons(h.Checks), Code: engine.CodeUnavailable}, Data: h,
	})
}

func (s *Server) health(r *http.Request) api.Health {
	eh := s.engine.Health(r.Context())
	h := api.Health{Ready: eh.Ready, Checks: notNil(eh.Checks)}
	if s.ready == nil {
		return h
	}
	for _, c := range s.ready(r.Context()) {
		h.Checks = append(h.Checks, c)
		h.Ready = h.Ready && (c.OK || !c.Required)
	}
	return h
}

// reasons names the required checks that failed.
func reasons(checks []engine.Check) string {
	var out []string
	for _, c := range checks {
		if c.Required && !c.OK {
			out = append(out, c.Name+": "+c.Detail)
		}
	}
	return strings.Join(out, "; ")
}
