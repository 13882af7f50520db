package engine

import (
	"strings"
	"unicode/utf8"
)

// glob is a pattern that has to match the whole of a text: * stands for any text, ? for
// one character, and \ takes their meaning from *, ? and itself.
type glob struct {
	tokens []globToken
	wild   bool // it has a wildcard
}

type globToken struct {
	kind globKind
	lit  byte
}

type globKind uint8

const (
	globLiteral globKind = iota
	globOne              // ?
	globAny              // *
)

func parseGlob(pattern string) glob {
	var g glob
	for i := 0; i < len(pattern); i++ {
		t := globToken{lit: pattern[i]}
		switch c := pattern[i]; {
		case c == '*':
			t.kind = globAny
		case c == '?':
			t.kind = globOne
		case c == '\\' && i+1 < len(pattern) && strings.IndexByte(`*?\`, pattern[i+1]) >= 0:
			i++
			t.lit = pattern[i]
		}
		g.wild = g.wild || t.kind != globLiteral
		g.tokens = append(g.tokens, t)
	}
	return g
}

// quoteGlob returns the pattern that matches text and nothing else.
func quoteGlob(text string) string {
	return strings.NewReplacer(`*`, `\*`, `?`, `\?`, `\`, `\\`).Replace(text)
}

// literal returns the text between the wildcards.
func (g glob) literal() string {
	var b strings.Builder
	for _, t := range g.tokens {
		if t.kind == globLiteral {
			b.WriteByte(t.lit)
		} else {
			b.WriteByte(' ')
		}
	}
	return b.String()
}

// match reports whether the pattern matches the whole text while no wildcard stands for
// a byte that refuse names; nil refuses none. Only the last * is ever extended: what an
// earlier one would have to take for the rest to fit, the last one may take as well.
func (g glob) match(text string, refuse func(byte) bool) bool {
	ti, pi := 0, 0          // in the text, in the pattern
	star, starText := -1, 0 // the last *, and where what it stands for ends
	for ti < len(text) {
		if pi < len(g.tokens) {
			if g.tokens[pi].kind == globAny {
				star, starText = pi, ti
				pi++
				continue
			}
			if n := g.tokens[pi].take(text[ti:], refuse); n > 0 {
				pi, ti = pi+1, ti+n
				continue
			}
		}
		if star < 0 || refuse != nil && refuse(text[starText]) {
			return false
		}
		starText++
		pi, ti = star+1, starText
	}
	for pi < len(g.tokens) && g.tokens[pi].kind == globAny {
		pi++
	}
	return pi == len(g.tokens)
}

// take returns how many bytes at the start of text a token that is no * stands for; 0:
// it does not fit.
func (t globToken) take(text string, refuse func(byte) bool) int {
	switch {
	case t.kind == globOne && refuse != nil && refuse(text[0]):
		return 0
	case t.kind == globOne:
		_, n := utf8.DecodeRuneInString(text)
		return n
	case text[0] == t.lit:
		return 1
	}
	return 0
}
