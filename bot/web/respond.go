package web

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/threadmill/threadmill/bot/web/api"
	"github.com/threadmill/threadmill/engine"
)

// answer is a handler's result: what goes into the envelope, and how.
type answer struct {
	status   int // 0: 200
	data     any
	meta     *api.Meta
	location string // of what was made
}

func ok(data any) (answer, error) { return answer{data: data}, nil }

// created answers with an execution that was just made.
func created(x engine.Execution) answer {
	return answer{status: http.StatusCreated, data: x, location: "/api/executions/" + x.ID}
}

// statusError is an engine.Error that HTTP has a word of its own for.
type statusError struct {
	status int
	err    *engine.Error
}

func (e *statusError) Error() string { return e.err.Error() }
func (e *statusError) Unwrap() error { return e.err }

func statusErrorf(status int, code engine.Code, format string, args ...any) error {
	return &statusError{status: status, err: engine.Errorf(code, format, args...)}
}

// statusOf maps an error to HTTP. An agent that cannot do what is asked is 422: the
// request is understood and in the right state, and will never work.
func statusOf(err error) int {
	if se, found := errors.AsType[*statusError](err); found {
		return se.status
	}
	switch engine.CodeOf(err) {
	case engine.CodeInvalid:
		return http.StatusBadRequest
	case engine.CodeUnauthorized:
		return http.StatusUnauthorized
	case engine.CodeForbidden:
		return http.StatusForbidden
	case engine.CodeNotFound:
		return http.StatusNotFound
	case engine.CodeConflict:
		return http.StatusConflict
	case engine.CodeUnsupported:
		return http.StatusUnprocessableEntity
	case engine.CodeUnavailable:
		return http.StatusServiceUnavailable
	case engine.CodeInternal:
		return http.StatusInternalServerError
	}
	return http.StatusInternalServerError
}

// handler is an endpoint that answers with JSON.
type handler func(r *http.Request) (answer, error)

// json makes an http.HandlerFunc of a handler.
func (s *Server) json(h handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		a, err := h(r)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		if a.location != "" {
			w.Header().Set("Location", a.location)
		}
		if a.status == 0 {
			a.status = http.StatusOK
		}
		s.write(w, r, a.status, api.Envelope{Data: a.data, Meta: a.meta})
	}
}

// write sends v, encoded before the first byte goes out, so that a value that cannot
// be encoded is an error the client sees and not half an answer.
func (s *Server) write(w http.ResponseWriter, r *http.Request, status int, v any) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		s.fail(w, r, err)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(buf.Len()))
	w.WriteHeader(status)
	_, _ = w.Write(buf.Bytes()) // a client that has gone needs no answer
}

// fail answers with an error. What is not fit for a user is logged here, once, and
// shown as a reference.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, context.Canceled) && r.Context().Err() != nil {
		w.WriteHeader(statusClientGone)
		return
	}
	status := statusOf(err)
	if status == http.StatusInternalServerError {
		s.failWith(w, r, s.reference(r, "error", err))
		return
	}
	switch status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", `Bearer realm="threadmill"`)
	case http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1")
	}
	s.write(w, r, status, api.Error{Error: err.Error(), Code: engine.CodeOf(err)})
}

// failWith answers with nothing but the reference under which the log has the cause.
func (s *Server) failWith(w http.ResponseWriter, r *http.Request, reference string) {
	s.write(w, r, http.StatusInternalServerError, api.Error{
		Error: "internal error, reference " + reference, Code: engine.CodeInternal, Reference: reference,
	})
}

// statusClientGone stands in the metrics for a client that did not wait.
const statusClientGone = 499

// reference logs what went wrong under a new reference and returns it.
func (s *Server) reference(r *http.Request, args ...any) string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails: it ends the program instead
	ref := hex.EncodeToString(b[:])
	args = append([]any{"reference", ref, "method", r.Method, "path", r.URL.Path}, args...)
	s.log.ErrorContext(r.Context(), "request failed", args...)
	return ref
}
