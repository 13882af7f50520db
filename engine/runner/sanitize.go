package runner

import "unicode/utf8"

const escape = 0x1b

// sanitize appends src to dst without anything that could do more to a terminal than
// put coloured text on it: of all control sequences only colours and styles (SGR) stay,
// of all control characters only newline and tab. A carriage return becomes a newline,
// because what a program draws over is still worth reading.
func sanitize(dst, src []byte) []byte {
	for i := 0; i < len(src); {
		start := i
		for i < len(src) && (src[i] >= ' ' && src[i] < 0x7f || src[i] == '\n' || src[i] == '\t') {
			i++
		}
		dst = append(dst, src[start:i]...)
		if i < len(src) {
			var n int
			dst, n = sanitizeOne(dst, src[i:])
			i += n
		}
	}
	return dst
}

// sanitizeOne takes what is not plain ASCII at the beginning of src and returns how
// much of it that was.
func sanitizeOne(dst, src []byte) ([]byte, int) {
	switch c := src[0]; {
	case c == escape:
		n := sequence(src)
		if isStyle(src[:n]) {
			dst = append(dst, src[:n]...)
		}
		return dst, n
	case c == '\r':
		if len(src) > 1 && src[1] == '\n' {
			return dst, 1
		}
		return append(dst, '\n'), 1
	case c < utf8.RuneSelf:
		return dst, 1
	}
	r, n := utf8.DecodeRune(src)
	if r > 0x9f || r == utf8.RuneError && n == 1 { // below are the C1 controls
		dst = utf8.AppendRune(dst, r)
	}
	return dst, n
}

// sequence returns the length of the control sequence at the beginning of src, or of
// what is there of it.
func sequence(src []byte) int {
	if len(src) < 2 {
		return len(src)
	}
	switch src[1] {
	case '[':
		return controlSequence(src)
	case ']', 'P', 'X', '^', '_': // strings: OSC, DCS, SOS, PM, APC
		return stringSequence(src)
	}
	n := 1
	for n < len(src) && src[n] >= 0x20 && src[n] <= 0x2f { // intermediates
		n++
	}
	if n < len(src) && src[n] >= 0x30 && src[n] <= 0x7e {
		n++
	}
	return n
}

func controlSequence(src []byte) int {
	n := 2
	for n < len(src) && src[n] >= 0x20 && src[n] <= 0x3f {
		n++
	}
	if n < len(src) && src[n] >= 0x40 && src[n] <= 0x7e {
		n++
	}
	return n
}

// stringSequence ends with BEL or ESC \. One that does not end within its line is
// taken to end there: text after it must not be lost.
func stringSequence(src []byte) int {
	for n := 2; n < len(src); n++ {
		switch {
		case src[n] == '\a':
			return n + 1
		case src[n] == escape && n+1 < len(src) && src[n+1] == '\\':
			return n + 2
		case src[n] == escape || src[n] == '\n':
			return n
		}
	}
	return len(src)
}

// isStyle reports whether seq is a complete SGR sequence with plain parameters.
func isStyle(seq []byte) bool {
	if len(seq) < 3 || seq[1] != '[' || seq[len(seq)-1] != 'm' {
		return false
	}
	for _, c := range seq[2 : len(seq)-1] {
		if (c < '0' || c > '9') && c != ';' && c != ':' {
			return false
		}
	}
	return true
}
