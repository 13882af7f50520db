package program

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/threadmill/threadmill/engine/agent"
)

// The bounds of what [Ending] quotes: a message for people, the log has the rest.
const (
	tailLines = 3
	tailBytes = 400
)

// Ending says how a program ended, with its last words: "exited with code 3: boom". A
// success says nothing.
func Ending(st agent.ExitStatus) string {
	text := fmt.Sprintf("exited with code %d", st.Code)
	switch {
	case st.Signal != "":
		text = "was ended by " + st.Signal
	case st.Code == 0:
		return ""
	}
	if tail := LastLines(st.Tail); tail != "" {
		text += ": " + tail
	}
	return text
}

// LastLines returns the last few lines of text that say something, on one line.
func LastLines(text string) string {
	var keep []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(clean(line)); line != "" {
			keep = append(keep, line)
		}
	}
	keep = keep[max(0, len(keep)-tailLines):]
	return Clip(strings.Join(keep, " / "), tailBytes)
}

// Clip shortens text to at most n bytes, keeping its end, on the border of a character.
func Clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return "…" + strings.ToValidUTF8(text[len(text)-n:], "")
}

// clean leaves out what a message for people must not carry.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || unicode.IsControl(r) && r != '\t' {
			return -1
		}
		return r
	}, s)
}

// Quote writes argv as one would type it into a shell, for reading only.
func Quote(argv []string) string {
	words := make([]string, len(argv))
	for i, arg := range argv {
		words[i] = quote(arg)
	}
	return strings.Join(words, " ")
}

func quote(arg string) string {
	switch {
	case arg != "" && strings.IndexFunc(arg, special) < 0:
		return arg
	case strings.IndexFunc(arg, unprintable) >= 0:
		quoted := strconv.Quote(arg)
		return "$'" + strings.ReplaceAll(quoted[1:len(quoted)-1], "'", `\'`) + "'"
	default:
		return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
	}
}

func special(r rune) bool {
	plain := unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("-_./:=@%+,", r)
	return !plain
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }
