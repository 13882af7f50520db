package tmux

import (
	"fmt"
	"strings"
)

// quote writes words as one line of tmux's command language. Everything stands in
// single quotes, in which tmux takes all bytes as they are. What cannot stand there is
// escaped between two quoted pieces: the quote itself, line ends, which would end a
// control-mode command, and the byte 255, which tmux's parser takes for end of file.
func quote(words []string) string {
	var b strings.Builder
	for i, w := range words {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteByte('\'')
		for j := range len(w) {
			switch c := w[j]; c {
			case '\'':
				b.WriteString(`'\''`)
			case '\n', '\r', 0xff:
				fmt.Fprintf(&b, `'\%03o'`, c)
			default:
				b.WriteByte(c)
			}
		}
		b.WriteByte('\'')
	}
	return b.String()
}
