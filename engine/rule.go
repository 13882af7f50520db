package engine

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Verdict is what a rule decides.
type Verdict string

// The verdicts of rules.
const (
	Allow Verdict = "allow"
	Deny  Verdict = "deny"
)

// Scope says how far a rule reaches.
type Scope string

// The scopes of rules, and what a rule's subject is in each.
const (
	ScopeRun     Scope = "run"     // one execution, by its id
	ScopeSession Scope = "session" // an agent's session, however often it is resumed, by its reference
	ScopeProject Scope = "project" // executions that work in one directory, by its resolved path
	ScopeUser    Scope = "user"    // executions that one person asked for
)

// Scopes returns all scopes, the narrowest first.
func Scopes() []Scope { return []Scope{ScopeRun, ScopeSession, ScopeProject, ScopeUser} }

// Rule is a remembered decision: it answers later asks like a person who is never away.
// A rule is made and removed, and never changed.
type Rule struct {
	ID         string     `json:"id"`
	Decision   Verdict    `json:"decision"`
	Scope      Scope      `json:"scope"`
	Subject    string     `json:"subject"`           // of its scope
	Tool       string     `json:"tool"`              // glob of the tool's name
	Match      string     `json:"match"`             // glob of the tool's argument
	Message    string     `json:"message,omitempty"` // deny: told to the agent
	ExpiresAt  *time.Time `json:"expiresAt,omitempty"`
	CreatedBy  string     `json:"createdBy"`
	CreatedAt  time.Time  `json:"createdAt"`
	LastUsedAt *time.Time `json:"lastUsedAt,omitempty"`
	Uses       int64      `json:"uses"`
}

// RuleFilter selects rules. Zero fields select everything.
type RuleFilter struct {
	Subjects []string  // of whatever scope; nil: all
	At       time.Time // only those in force then
}

// subject is what a rule of that scope made for x would be about; empty: x has none.
func (s Scope) subject(x Execution) string {
	switch s {
	case ScopeRun:
		return x.ID
	case ScopeSession:
		return x.SessionRef
	case ScopeProject:
		return x.Dir
	case ScopeUser:
		return x.RequestedBy
	}
	return ""
}

// subjectsOf is what rules that hold for x are about.
func subjectsOf(x Execution) []string {
	var out []string
	for _, s := range Scopes() {
		if v := s.subject(x); v != "" {
			out = append(out, v)
		}
	}
	return out
}

// decisive returns the rule that decides an ask by x: a deny before an allow, then the
// narrowest, then the newest.
func decisive(rules []Rule, x Execution, a Approval, now time.Time) (best Rule, found bool) {
	if a.Ask.Tool == "" {
		return best, false
	}
	arg := argumentOf(a.Ask, x.Dir)
	for _, r := range rules {
		if r.holds(x, now) && r.matches(a.Ask.Tool, arg) && (!found || r.before(best)) {
			best, found = r, true
		}
	}
	return best, found
}

// holds reports whether the rule is about x and in force. Subjects are compared as a
// whole: /srv/app is no project of /srv/app2, nor of what lies below it.
func (r Rule) holds(x Execution, now time.Time) bool {
	subject := r.Scope.subject(x)
	return subject != "" && subject == r.Subject && (r.ExpiresAt == nil || now.Before(*r.ExpiresAt))
}

func (r Rule) before(other Rule) bool {
	rank := func(r Rule) int { return slices.Index(Scopes(), r.Scope) }
	if r.Decision != other.Decision {
		return r.Decision == Deny
	}
	return cmp.Or(cmp.Compare(rank(r), rank(other)), other.CreatedAt.Compare(r.CreatedAt)) < 0
}

// matches reports whether the rule is about this use of a tool. A deny reads its pattern
// as widely as it can be read, an allow as narrowly.
func (r Rule) matches(tool string, arg argument) bool {
	if !parseGlob(r.Tool).match(tool, nil) {
		return false
	}
	pattern := parseGlob(r.Match)
	if r.Decision == Deny {
		return pattern.match(arg.text, nil) || slices.ContainsFunc(arg.also, func(s string) bool { return pattern.match(s, nil) })
	}
	if r.Decision != Allow || arg.unsure {
		return false
	}
	switch arg.kind {
	case argCommand:
		return allowsCommand(pattern, arg.text)
	case argAddress:
		return allowsAddress(r.Match, arg.text)
	case argPath, argData:
	}
	return pattern.match(arg.text, nil)
}

// allowsCommand matches a command line. No wildcard stands for anything by which a shell
// makes another command of it, so `git log *` does not allow `git log; rm -rf .`. Nor
// does one lead out of a directory that the pattern names, by "..". Where the pattern
// has such characters itself, quotes are refused too: a single one changes the meaning
// of what is spelt out.
func allowsCommand(pattern glob, command string) bool {
	if !pattern.wild {
		return pattern.match(command, nil)
	}
	spelt := pattern.literal()
	refuse := isShell
	if slices.ContainsFunc([]byte(spelt), isShell) {
		refuse = func(c byte) bool { return isShell(c) || c == '"' || c == '\'' }
	}
	return parents(command) <= parents(spelt) && pattern.match(command, refuse)
}

// isShell reports whether a shell gives a byte a meaning beyond that of a word: joining
// and redirecting commands, substitution, expansion, comments, control characters.
func isShell(c byte) bool {
	return c < 0x20 && c != '\t' || c == 0x7f || strings.IndexByte("&;|<>()$`{}[]*?!#\\", c) >= 0
}

// parents counts the ".." in the paths of a command line, quotes taken away.
func parents(command string) int {
	n := 0
	command = strings.NewReplacer(`"`, "", `'`, "", `\`, "").Replace(command)
	for part := range strings.FieldsFuncSeq(command, func(c rune) bool { return strings.ContainsRune("/ \t\n=:,", c) }) {
		if part == ".." {
			n++
		}
	}
	return n
}

// allowsAddress matches an address. Its scheme and host are matched apart from the rest,
// so `https://*.example.com/*` does not allow `https://evil.net/x.example.com/`.
func allowsAddress(pattern, address string) bool {
	if pattern == "*" {
		return true
	}
	if g := parseGlob(pattern); !g.wild {
		return g.match(address, nil)
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil || strings.Contains(address, `\`) || parents(u.Path) > parents(pattern) {
		return false // it leads to another place than it seems to
	}
	patternHost, patternRest := cutAddress(pattern)
	host, rest := cutAddress(address)
	notInHost := func(c byte) bool { return c <= ' ' || strings.IndexByte(`/\?#@:`, c) >= 0 }
	return parseGlob(patternHost).match(host, notInHost) && parseGlob(patternRest).match(rest, nil)
}

// cutAddress cuts an address behind its scheme and host. One without a slash behind
// them is read as if it had one.
func cutAddress(s string) (host, rest string) {
	scheme, after, found := strings.Cut(s, "://")
	if !found {
		return s, "/"
	}
	end := strings.IndexByte(after, '/')
	if end < 0 {
		return s, "/"
	}
	end += len(scheme) + len("://")
	return s[:end], s[end:]
}
