package safety

import "strings"

// maxName is the longest name of an argument.
const maxName = 64

// isArgName reports whether name can be an argument's: letters, digits, _ and -, a
// letter or _ first.
func isArgName(name string) bool {
	return name != "" && len(name) <= maxName && wordLen(name, isArgChar) == len(name)
}

// isEnvName reports whether name can be an environment variable's.
func isEnvName(name string) bool {
	return name != "" && wordLen(name, isWordChar) == len(name)
}

// wordLen is the length of the name that s begins with: 0 where it begins with none.
func wordLen(s string, part func(c byte) bool) int {
	if s == "" || !isWordChar(s[0]) || s[0] >= '0' && s[0] <= '9' {
		return 0
	}
	n := 1
	for n < len(s) && part(s[n]) {
		n++
	}
	return n
}

func isWordChar(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

func isArgChar(c byte) bool { return c == '-' || isWordChar(c) }

// argField makes a name that a stranger chose fit for an error message.
func argField(name string) string {
	if isArgName(name) {
		return name
	}
	return shown(name)
}

// placeholder is a {{name}} in a text, at text[start:end].
type placeholder struct {
	name       string
	start, end int
}

// placeholders finds the placeholders of a text; spaces around the name are allowed.
// Other braces are ordinary text: prompts talk about templates, too.
func placeholders(text string) []placeholder {
	var out []placeholder
	for at := 0; ; {
		i := strings.Index(text[at:], "{{")
		if i < 0 {
			return out
		}
		at += i
		name, size := placeholderAt(text[at:])
		if size == 0 {
			at++ // the second brace may be the first of another one
			continue
		}
		out = append(out, placeholder{name, at, at + size})
		at += size
	}
}

// placeholderAt reads the placeholder that s begins with; size is 0 where there is none.
func placeholderAt(s string) (name string, size int) {
	inner := strings.TrimLeft(s[len("{{"):], " ")
	n := wordLen(inner, isArgChar)
	rest := strings.TrimLeft(inner[n:], " ")
	if !isArgName(inner[:n]) || !strings.HasPrefix(rest, "}}") {
		return "", 0
	}
	return inner[:n], len(s) - len(rest) + len("}}")
}
