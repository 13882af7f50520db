package web

import (
	"bytes"
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/threadmill/threadmill/engine"
)

// meters are the service's metrics, in a set of their own.
type meters struct {
	set     *metrics.Set
	build   string
	streams map[string]*atomic.Int64 // open ones by kind; the map itself never changes
}

// The kinds of streams.
const (
	streamLogs    = "logs"
	streamEntries = "entries"
	streamSocket  = "websocket"
	streamChange  = "changes"
)

func newMeters(version string) *meters {
	m := &meters{
		set:   metrics.NewSet(),
		build: fmt.Sprintf("threadmill_build_info{version=%q,go=%q}", version, runtime.Version()),
		streams: map[string]*atomic.Int64{
			streamLogs: {}, streamEntries: {}, streamSocket: {}, streamChange: {},
		},
	}
	for kind, n := range m.streams {
		m.set.NewGauge(fmt.Sprintf("threadmill_stream_clients{kind=%q}", kind), func() float64 { return float64(n.Load()) })
	}
	return m
}

// stream counts an open stream until the returned function is called.
func (m *meters) stream(kind string) (closed func()) {
	m.streams[kind].Add(1)
	return func() { m.streams[kind].Add(-1) }
}

// request counts a request. Methods that no route has are counted as one, so that
// nobody can fill the memory with invented ones.
func (m *meters) request(path, method string, status int, took time.Duration) {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete:
	default:
		method = "other"
	}
	if status == 0 {
		status = http.StatusOK // what net/http says when a handler says nothing
	}
	labels := fmt.Sprintf("{route=%q,method=%q,code=%q}", path, method, strconv.Itoa(status))
	m.set.GetOrCreateCounter("threadmill_http_requests_total" + labels).Inc()
	m.set.GetOrCreateFloatCounter("threadmill_http_request_seconds_total" + labels).Add(took.Seconds())
}

// serveMetrics answers in the Prometheus text format.
func (s *Server) serveMetrics(w http.ResponseWriter, r *http.Request) {
	stats, err := s.engine.Stats(r.Context())
	if err != nil {
		s.fail(w, r, err)
		return
	}
	var buf bytes.Buffer
	for _, status := range engine.Statuses() {
		if status.Ended() {
			continue // they are never fewer; counting them all would be slow
		}
		fmt.Fprintf(&buf, "threadmill_executions{status=%q} %d\n", status, stats.ByStatus[status])
	}
	fmt.Fprintf(&buf, "threadmill_approvals_open %d\n%s 1\n", stats.OpenApprovals, s.metrics.build)
	s.metrics.set.WritePrometheus(&buf)
	metrics.WriteProcessMetrics(&buf)
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write(buf.Bytes()) // a client that has gone needs no answer
}
