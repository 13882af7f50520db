package rundir

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"
)

// castEnd is the label of the marker that ends a recording which has become too large.
const castEnd = "the recording ends here: it has reached its size"

// CastWriter records a terminal as asciicast v2: a head, then one event a line. It masks
// nothing; what it is given must be fit to be seen. It is safe for concurrent use.
type CastWriter struct {
	mu    sync.Mutex
	f     *os.File
	size  int64
	limit int64
	last  time.Duration // of the newest event
	tail  []byte        // the beginning of a rune whose rest has not come yet
	line  []byte        // scratch
	full  bool
}

// OpenCast begins the recording of a terminal of cols by rows in a new file at path, which
// gets at most limit bytes (0: no limit).
func OpenCast(path string, cols, rows int, title string, limit int64) (*CastWriter, error) {
	head, err := json.Marshal(map[string]any{
		"version": 2, "width": cols, "height": rows, "timestamp": time.Now().Unix(), "title": title,
	})
	if err != nil {
		return nil, fmt.Errorf("begin the recording: %w", err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("begin the recording: %w", err)
	}
	w := &CastWriter{f: f, limit: limit}
	if err := w.write(append(head, '\n')); err != nil {
		return nil, fmt.Errorf("begin the recording: %w", joinClose(err, f))
	}
	return w, nil
}

// WriteOutput records what the terminal was sent, at a time since the beginning. A rune
// that b cuts in two is recorded whole with the next piece.
func (w *CastWriter) WriteOutput(b []byte, at time.Duration) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.full {
		return nil
	}
	text := append(w.tail, b...)
	whole := len(text) - incomplete(text)
	err := w.event("o", text[:whole], at)
	w.tail = append(w.tail[:0], text[whole:]...)
	if cap(w.tail) > keepBuffer {
		w.tail = append([]byte(nil), w.tail...)
	}
	return err
}

// Resize records that the terminal has changed its size.
func (w *CastWriter) Resize(cols, rows int, at time.Duration) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.event("r", []byte(strconv.Itoa(cols)+"x"+strconv.Itoa(rows)), at)
}

// Close records what is left and closes the file.
func (w *CastWriter) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return joinClose(w.event("o", w.tail, w.last), w.f)
}

// event writes one event, or the marker in its place where there is no room for both.
func (w *CastWriter) event(code string, data []byte, at time.Duration) error {
	w.last = max(w.last, at) // players do not go back in time
	if w.full || len(data) == 0 {
		return nil
	}
	w.encode(code, data)
	if room := w.limit - w.size - int64(len(castEnd)) - 40; w.limit > 0 && int64(len(w.line)) > room {
		w.full = true
		w.encode("m", []byte(castEnd))
	}
	return w.write(w.line)
}

func (w *CastWriter) encode(code string, data []byte) {
	w.line = append(w.line[:0], '[')
	w.line = strconv.AppendFloat(w.line, w.last.Seconds(), 'f', 6, 64)
	w.line = append(w.line, `,"`+code+`",`...)
	w.line = appendJSONString(w.line, data)
	w.line = append(w.line, "]\n"...)
}

func (w *CastWriter) write(line []byte) error {
	if err := appendWhole(w.f, line, w.size); err != nil {
		return fmt.Errorf("write the recording: %w", err)
	}
	w.size += int64(len(line))
	return nil
}

// incomplete returns how many bytes at the end of b are the beginning of a rune.
func incomplete(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if c := b[len(b)-n]; utf8.RuneStart(c) {
			if utf8.FullRune(b[len(b)-n:]) {
				return 0
			}
			return n
		}
	}
	return 0
}

// appendJSONString appends b as a JSON string; what is not UTF-8 becomes U+FFFD.
func appendJSONString(dst, b []byte) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for len(b) > 0 {
		c := b[0]
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, `\n`...)
		case c == '\r':
			dst = append(dst, `\r`...)
		case c < ' ' || c == 0x7f:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		case c < utf8.RuneSelf:
			dst = append(dst, c)
		default:
			r, n := utf8.DecodeRune(b)
			dst, b = utf8.AppendRune(dst, r), b[n:]
			continue
		}
		b = b[1:]
	}
	return append(dst, '"')
}
