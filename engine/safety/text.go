package safety

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// The longest texts that are taken: the kernel takes no argument beyond 128 KiB, and
// nobody types that much.
const (
	maxArgument  = 32 << 10
	maxMultiline = 256 << 10
)

// Text checks text that is meant for an agent to read, such as a message: it may
// have lines and tabs, but no other control characters. Line ends become "\n".
func Text(field, s string) (string, error) {
	s = strings.ReplaceAll(s, "\r\n", "\n")
	if err := checkText(field, s, true); err != nil {
		return "", err
	}
	return s, nil
}

// checkText refuses what could end a line, move a cursor or start an escape sequence
// in whatever shows or reads s later. It returns nil of type *Error where s is fine.
func checkText(field, s string, multiline bool) *Error {
	limit := maxArgument
	if multiline {
		limit = maxMultiline
	}
	switch {
	case len(s) > limit:
		return refuse(field, "is too long: %d bytes, at most %d are allowed", len(s), limit)
	case !utf8.ValidString(s):
		return refuse(field, "is not valid UTF-8 text")
	}
	for _, r := range s {
		if multiline && (r == '\n' || r == '\t') {
			continue
		}
		if isControl(r) {
			return refuse(field, "holds the control character %s, which is not allowed", charName(r))
		}
	}
	return nil
}

// isControl reports C0, DEL, C1 and the two Unicode line separators.
func isControl(r rune) bool {
	return unicode.IsControl(r) || r == '\u2028' || r == '\u2029'
}

func charName(r rune) string {
	switch r {
	case '\n':
		return "newline"
	case '\r':
		return "carriage return"
	case '\t':
		return "tab"
	case 0:
		return "NUL"
	case 0x1b:
		return "escape"
	}
	return strings.ToUpper(strings.Trim(shown(string(r)), `"`))
}
