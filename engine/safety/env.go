package safety

import (
	"maps"
	"slices"
	"strings"
)

// own is the prefix of the service's own variables: its settings and tokens on the
// way in, facts about the execution on the way to an agent.
const own = "THREADMILL_"

// defaultPath is what an agent gets where the service itself has no PATH.
const defaultPath = "/usr/local/bin:/usr/bin:/bin"

// basics are the variables that every agent gets, where the service has them.
func basics() []string {
	return []string{"PATH", "HOME", "USER", "LANG", "LC_ALL", "TMPDIR", "TZ"}
}

// Env builds the whole environment of an agent from scratch: the basic variables and
// those of the allowlist as base has them, what the terminal can do, and the facts
// about the execution (THREADMILL_…). It is sorted and holds each name once. The
// service's own variables and malformed names are left out whatever the list says.
func Env(base map[string]string, allowlist []string, facts map[string]string) []string {
	env := map[string]string{"PATH": defaultPath}
	for _, name := range append(basics(), allowlist...) {
		if value, ok := base[name]; ok && CheckEnvName(name) == nil {
			env[name] = value
		}
	}
	env["TERM"], env["COLORTERM"] = "xterm-256color", "truecolor"
	for name, value := range facts {
		if isEnvName(name) {
			env[name] = value
		}
	}
	maps.DeleteFunc(env, func(_, value string) bool { return strings.ContainsRune(value, 0) })
	out := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		out = append(out, name+"="+env[name])
	}
	return out
}

// CheckEnvName checks that a variable may stand in an agent's allowlist.
func CheckEnvName(name string) error {
	if !isEnvName(name) {
		return refuse("env_allowlist", "%s is not the name of a variable (letters, digits and _, not a digit first)", shown(name))
	}
	if strings.HasPrefix(strings.ToUpper(name), own) {
		return refuse("env_allowlist", "%s belongs to the service itself and is never handed to an agent", name)
	}
	return nil
}
