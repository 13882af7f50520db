package demo

import (
	"errors"
	"strings"
)

// errQuote is a command line that does not end where its quotes do.
var errQuote = errors.New("a quote is not closed")

// splitArgv splits a command line into words. It knows single quotes, double quotes
// and the backslash; everything else that a shell would act on is plain text.
func splitArgv(line string) ([]string, error) {
	var argv []string
	var b strings.Builder
	inWord, quote := false, byte(0)
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case c == '\\' && quote != '\'':
			if i++; i == len(line) {
				return nil, errQuote
			}
			b.WriteByte(line[i])
			inWord = true
		case quote == 0 && (c == '\'' || c == '"'):
			quote, inWord = c, true
		case quote == 0 && (c == ' ' || c == '\t'):
			if inWord {
				argv = append(argv, b.String())
				b.Reset()
			}
			inWord = false
		default:
			b.WriteByte(c)
			inWord = true
		}
	}
	if quote != 0 {
		return nil, errQuote
	}
	if inWord {
		argv = append(argv, b.String())
	}
	return argv, nil
}
