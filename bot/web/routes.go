package web

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/threadmill/threadmill/bot/web/page"
	"github.com/threadmill/threadmill/engine"
)

// route is one endpoint.
type route struct {
	method string
	path   string // a pattern of http.ServeMux, without the method
	open   bool   // no token needed
	handle http.HandlerFunc
}

// routes returns the whole API. A path with a method that it does not have is 405, a
// path that does not exist 404, both as JSON and both only told to those who may ask.
func (s *Server) routes(openMetrics bool) http.Handler {
	mux := http.NewServeMux()
	byPath := map[string][]route{}
	for _, rt := range slices.Concat(s.executionRoutes(), s.outputRoutes(), s.workRoutes(), s.serviceRoutes(openMetrics), s.sessionRoutes(), pageRoutes()) {
		byPath[rt.path] = append(byPath[rt.path], rt)
	}
	for path, rts := range byPath {
		mux.Handle(path, s.byMethod(path, rts))
	}
	mux.Handle("/", s.metered("other", s.authenticated(func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, r, engine.Errorf(engine.CodeNotFound, "there is nothing at %s; see /api/openapi.yaml", r.URL.Path))
	})))
	return mux
}

func (s *Server) executionRoutes() []route {
	return []route{
		{method: "GET", path: "/api/executions", handle: s.json(s.listExecutions)},
		{method: "POST", path: "/api/executions", handle: s.json(s.createExecution)},
		{method: "GET", path: "/api/executions/{id}", handle: s.json(s.showExecution)},
		{method: "POST", path: "/api/executions/{id}/cancel", handle: s.json(s.cancelExecution)},
		{method: "POST", path: "/api/executions/{id}/message", handle: s.json(s.sendMessage)},
		{method: "POST", path: "/api/executions/{id}/interrupt", handle: s.json(s.interruptExecution)},
		{method: "POST", path: "/api/executions/{id}/retry", handle: s.json(s.retryExecution)},
		{method: "POST", path: "/api/executions/{id}/fork", handle: s.json(s.forkExecution)},
		{method: "GET", path: "/api/executions/{id}/commands", handle: s.json(s.listCommands)},
	}
}

func (s *Server) outputRoutes() []route {
	return []route{
		{method: "GET", path: "/api/executions/{id}/logs", handle: s.downloadLog},
		{method: "GET", path: "/api/executions/{id}/logs/stream", handle: s.streamLog},
		{method: "GET", path: "/api/executions/{id}/logs/ws", handle: s.socketLog},
		{method: "GET", path: "/api/executions/{id}/entries", handle: s.json(s.listEntries)},
		{method: "GET", path: "/api/executions/{id}/entries/stream", handle: s.streamEntries},
	}
}

func (s *Server) workRoutes() []route {
	return []route{
		{method: "GET", path: "/api/approvals", handle: s.json(s.listApprovals)},
		{method: "GET", path: "/api/approvals/{id}", handle: s.json(s.showApproval)},
		{method: "POST", path: "/api/approvals/{id}", handle: s.json(s.decideApproval)},
		{method: "GET", path: "/api/rules", handle: s.json(s.listRules)},
		{method: "DELETE", path: "/api/rules/{id}", handle: s.json(s.removeRule)},
		{method: "GET", path: "/api/tasks", handle: s.json(s.listTasks)},
		{method: "POST", path: "/api/tasks", handle: s.json(s.createTask)},
		{method: "GET", path: "/api/tasks/{id}", handle: s.json(s.showTask)},
		{method: "POST", path: "/api/tasks/{id}/run", handle: s.json(s.runTask)},
		{method: "POST", path: "/api/tasks/{id}/stop", handle: s.json(s.stopTask)},
		{method: "GET", path: "/api/budget", handle: s.json(s.showBudget)},
		{method: "POST", path: "/api/budget/extend", handle: s.json(s.extendBudget)},
		{method: "GET", path: "/api/agents", handle: s.json(s.listAgents)},
		{method: "GET", path: "/api/capabilities", handle: s.json(s.listCapabilities)},
		{method: "GET", path: "/api/workers/status", handle: s.json(s.listWorkers)},
		{method: "GET", path: "/api/audit", handle: s.json(s.listAudit)},
		{method: "GET", path: "/api/changes", handle: s.streamChanges},
	}
}

func (s *Server) serviceRoutes(openMetrics bool) []route {
	return []route{
		{method: "GET", path: "/api/version", handle: s.json(s.showVersion)},
		{method: "GET", path: "/api/openapi.yaml", open: true, handle: serveOpenAPI},
		{method: "GET", path: "/healthz", open: true, handle: s.json(s.alive)},
		{method: "GET", path: "/readyz", open: true, handle: s.readiness},
		{method: "GET", path: "/metrics", open: openMetrics, handle: s.serveMetrics},
	}
}

func (s *Server) sessionRoutes() []route {
	return []route{
		{method: "POST", path: "/api/session", open: true, handle: s.createSession},
		{method: "GET", path: "/api/session", handle: s.json(s.showSession)},
		{method: "DELETE", path: "/api/session", open: true, handle: s.endSession},
		{method: "POST", path: "/api/session/links", handle: s.json(s.createLink)},
	}
}

// pageRoutes are the files of the web page. They hold nothing that is secret.
func pageRoutes() []route {
	var out []route
	for _, f := range page.Files() {
		out = append(out, route{method: "GET", path: f.Path, open: true, handle: f.ServeHTTP})
	}
	return out
}

// byMethod serves the routes of one path.
func (s *Server) byMethod(path string, routes []route) http.Handler {
	handlers := map[string]http.HandlerFunc{}
	open := false
	for _, rt := range routes {
		handle := rt.handle
		if !rt.open {
			handle = s.authenticated(handle)
		}
		handlers[rt.method] = handle
		open = open || rt.open
		if rt.method == http.MethodGet {
			handlers[http.MethodHead] = handle // net/http leaves the body out
		}
	}
	allow := allowHeader(handlers)
	refuse := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", allow)
		s.fail(w, r, statusErrorf(http.StatusMethodNotAllowed, engine.CodeInvalid, "%s takes %s, not %s", path, allow, r.Method))
	}
	if !open {
		refuse = s.authenticated(refuse)
	}
	return s.metered(path, func(w http.ResponseWriter, r *http.Request) {
		if h, found := handlers[r.Method]; found {
			h(w, r)
			return
		}
		refuse(w, r)
	})
}

func allowHeader(handlers map[string]http.HandlerFunc) string {
	methods := make([]string, 0, len(handlers))
	for m := range handlers {
		methods = append(methods, m)
	}
	slices.Sort(methods)
	return strings.Join(methods, ", ")
}

// authenticated lets only requests with the token, or from a browser that is signed
// in, pass.
func (s *Server) authenticated(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := s.authenticate(w, r); err != nil {
			s.fail(w, r, err)
			return
		}
		next(w, r)
	}
}

// metered counts requests by route and status, and catches panics.
func (s *Server) metered(path string, next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w, begin := &recorder{ResponseWriter: rw}, time.Now()
		defer func() { s.metrics.request(path, r.Method, w.status, time.Since(begin)) }()
		defer s.recoverPanic(w, r)
		next(w, r)
	})
}
