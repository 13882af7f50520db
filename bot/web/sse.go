package web

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

const (
	// writeTimeout is how long one write may wait for a client that does not read. It
	// resumes where it was once it comes back.
	writeTimeout = time.Minute
	// heartbeat keeps proxies from closing a quiet stream, and notices dead clients.
	heartbeat = 15 * time.Second
	// eventBatch is how much is gathered before it is sent.
	eventBatch = 64 << 10
	// eventKeep is the largest buffer that a stream keeps between batches.
	eventKeep = 4 * eventBatch
)

// events writes a stream of server-sent events.
type events struct {
	w   http.ResponseWriter
	rc  *http.ResponseController
	buf *bytes.Buffer
	enc *json.Encoder
}

// startEvents begins the answer. A HEAD request gets no more than that.
func startEvents(w http.ResponseWriter, r *http.Request) (*events, bool) {
	e := &events{w: w, rc: http.NewResponseController(w)}
	e.reset()
	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("X-Accel-Buffering", "no") // nginx would hold events back
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return e, false
	}
	_ = e.rc.SetReadDeadline(time.Time{}) // the request is read; net/http watches for its end
	e.buf.WriteString("retry: 1000\n\n")
	return e, true
}

func (e *events) reset() {
	e.buf = &bytes.Buffer{}
	e.enc = json.NewEncoder(e.buf)
	e.enc.SetEscapeHTML(false)
}

// noID is for events that are no place to resume from.
const noID = -1

// event adds an event; it is sent with the next flush, or when enough is there.
func (e *events) event(name string, id int64, data any) error {
	if id != noID {
		e.buf.WriteString("id: ")
		e.buf.Write(strconv.AppendInt(e.buf.AvailableBuffer(), id, 10))
		e.buf.WriteByte('\n')
	}
	e.buf.WriteString("event: ")
	e.buf.WriteString(name)
	e.buf.WriteString("\ndata: ")
	if err := e.enc.Encode(data); err != nil { // writes one line and its end
		return err
	}
	e.buf.WriteByte('\n')
	if e.buf.Len() < eventBatch {
		return nil
	}
	return e.flush()
}

// beat sends a comment.
func (e *events) beat() error {
	e.buf.WriteString(":\n\n")
	return e.flush()
}

// flush sends what was added.
func (e *events) flush() error {
	if e.buf.Len() == 0 {
		return nil
	}
	if err := e.rc.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	if _, err := e.w.Write(e.buf.Bytes()); err != nil {
		return err
	}
	if e.buf.Cap() > eventKeep {
		e.reset()
	} else {
		e.buf.Reset()
	}
	return e.rc.Flush()
}
