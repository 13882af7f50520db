package safety

import (
	"slices"
	"strings"
	"unicode"
)

const (
	minNamedSecret = 4  // shorter values would mask half of any output
	minOtherSecret = 16 // what is this long and no path or word is more likely a key than not
)

// Secrets returns the values of an agent's environment that must not appear in its
// output: those whose names say so, and those of the allowlist that look like keys.
func Secrets(env, allowlist []string) []string {
	var out []string
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		allowed := slices.Contains(allowlist, name)
		if namedSecret(name) && len(value) >= minNamedSecret || allowed && looksSecret(value) {
			out = append(out, value)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// namedSecret reports whether a variable's name says that its value is a secret.
func namedSecret(name string) bool {
	name = strings.ToUpper(name)
	words := []string{"KEY", "TOKEN", "SECRET", "PASSW", "CREDENTIAL", "AUTH", "PRIVATE"}
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(name, word) })
}

func looksSecret(value string) bool {
	if len(value) < minOtherSecret || strings.ContainsAny(value, "/ \t\n") {
		return false
	}
	return strings.ContainsFunc(value, func(r rune) bool { return !unicode.IsLetter(r) })
}
