package rundir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/redact"
)

const (
	defaultWire = 16 << 20
	wireEnd     = "the record ends here: it has reached its size"
	wireSystem  = agent.WireDir("system") // a note of ours
)

// WireWriter records what goes over an agent's protocol, for diagnosis: one JSON object a
// line, with the direction, the milliseconds since the beginning and the line, which is
// JSON where it is valid and a string otherwise. It is safe for concurrent use.
type WireWriter struct {
	mu    sync.Mutex
	f     *os.File
	mask  *redact.Masker
	start time.Time
	size  int64
	limit int64
	line  []byte // scratch
	full  bool
}

// OpenWire begins a record at path, or goes on with one, of at most limit bytes (0: 16 MB).
func OpenWire(path string, limit int64, m *redact.Masker) (*WireWriter, error) {
	if limit <= 0 {
		limit = defaultWire
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("begin the record of the protocol: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("begin the record of the protocol: %w", joinClose(err, f))
	}
	return &WireWriter{f: f, mask: m, start: time.Now(), size: info.Size(), limit: limit}, nil
}

// Write records one line of the protocol. Once the record is full it writes nothing more.
func (w *WireWriter) Write(dir agent.WireDir, line []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.full {
		return nil
	}
	at := time.Since(w.start)
	w.encode(dir, at, line)
	if w.size+int64(len(w.line)+len(wireEnd)+60) > w.limit {
		w.full = true
		w.encode(wireSystem, at, []byte(wireEnd))
	}
	if err := appendWhole(w.f, w.line, w.size); err != nil {
		return fmt.Errorf("record the protocol: %w", err)
	}
	w.size += int64(len(w.line))
	return nil
}

// Close closes the file.
func (w *WireWriter) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.f.Close()
}

func (w *WireWriter) encode(dir agent.WireDir, at time.Duration, line []byte) {
	w.line = append(w.line[:0], `{"dir":`...)
	w.line = appendJSONString(w.line, []byte(dir))
	w.line = append(w.line, `,"t_ms":`...)
	w.line = strconv.AppendInt(w.line, at.Milliseconds(), 10)
	w.line = append(w.line, `,"line":`...)
	w.line = w.appendLine(w.line, line)
	w.line = append(w.line, "}\n"...)
}

// appendLine masks before it looks whether the line is JSON, because a mask may take away
// a quote.
func (w *WireWriter) appendLine(dst, line []byte) []byte {
	line = w.mask.Bytes(bytes.TrimRight(line, "\r\n"))
	b := bytes.NewBuffer(dst)
	if utf8.Valid(line) && json.Compact(b, line) == nil {
		return b.Bytes()
	}
	return appendJSONString(dst, line)
}

func joinClose(err error, f *os.File) error {
	return errors.Join(err, f.Close())
}
