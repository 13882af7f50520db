// Package lines reads a stream that should consist of short lines from a program that
// may do otherwise: a line that is too long is cut, never kept in memory whole and
// never the end of the stream.
package lines

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// Reader reads lines of at most a given length.
type Reader struct {
	r   *bufio.Reader
	max int
	buf []byte
}

// NewReader returns a reader of r's lines; what a line has beyond max bytes is
// dropped.
func NewReader(r io.Reader, limit int) *Reader {
	return &Reader{r: bufio.NewReaderSize(r, 32<<10), max: limit}
}

// Next returns the next line without its end, which is valid until the next call. cut
// tells that its rest was dropped. An unfinished last line counts as a line; after it
// the error is that of the stream.
func (r *Reader) Next() (line []byte, cut bool, err error) {
	r.buf = r.buf[:0]
	for {
		part, err := r.r.ReadSlice('\n')
		if err == nil && len(r.buf) == 0 && len(part) <= r.max {
			return trim(part), false, nil // the usual line, without a copy
		}
		cut = r.keep(part) || cut
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err == nil, len(r.buf) > 0:
			return trim(r.buf), cut, nil
		default:
			return nil, false, err
		}
	}
}

// keep adds part to the line as far as it may grow and tells whether some was dropped.
func (r *Reader) keep(part []byte) bool {
	room := min(len(part), r.max-len(r.buf))
	r.buf = append(r.buf, part[:room]...)
	return room < len(part) && len(bytes.TrimRight(part[room:], "\r\n")) > 0
}

func trim(line []byte) []byte {
	line = bytes.TrimSuffix(line, []byte("\n"))
	return bytes.TrimSuffix(line, []byte("\r"))
}
