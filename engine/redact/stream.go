package redact

// Stream masks text that arrives in pieces. However the text is cut, what comes out is
// what [Masker.Bytes] makes of the whole. It is for one goroutine at a time.
type Stream struct {
	m       *Masker
	held    []byte // the end of what was written, which may be the beginning of a secret
	covered int    // how much of held is under a mask that is already out
}

// Stream returns a new stream.
func (m *Masker) Stream() *Stream {
	return &Stream{m: m}
}

// Write appends to dst what of the text so far is safe to show, and returns dst. It
// holds back only an end that may be the beginning of a secret.
func (s *Stream) Write(dst, chunk []byte) []byte {
	if s.m == nil {
		return append(dst, chunk...)
	}
	b := chunk
	if len(s.held) > 0 {
		s.held = append(s.held, chunk...)
		b = s.held
	}
	safe := len(b) - s.m.pending(b)
	dst = s.emit(dst, b, safe)
	s.held = append(s.held[:0], b[safe:]...)
	return dst
}

// Flush appends to dst what is held back, and returns dst: the text ends here.
func (s *Stream) Flush(dst []byte) []byte {
	if s.m == nil {
		return dst
	}
	dst = s.emit(dst, s.held, len(s.held))
	s.held, s.covered = s.held[:0], 0
	return dst
}

// emit appends b[:safe] to dst. A mask that reaches beyond safe is written now and
// remembered, so that a chain of overlapping secrets needs no more memory than one.
func (s *Stream) emit(dst, b []byte, safe int) []byte {
	pos := s.m.extend(b, 0, s.covered)
	for pos < safe {
		start, end := s.m.span(b, pos, safe)
		if start < 0 {
			dst, pos = append(dst, b[pos:safe]...), safe
			break
		}
		dst = append(append(dst, b[pos:start]...), Mask...)
		pos = end
	}
	s.covered = pos - safe
	return dst
}
