package engine

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/threadmill/threadmill/engine/agent"
)

func bash(command string) agent.Ask {
	b, _ := json.Marshal(map[string]string{"command": command})
	return agent.Ask{Tool: "Bash", Action: agent.ActionCommandRun, Input: b}
}

func allows(match string, ask agent.Ask, dir string) bool {
	return Rule{Decision: Allow, Tool: "*", Match: match}.matches(ask.Tool, argumentOf(ask, dir))
}

func denies(match string, ask agent.Ask, dir string) bool {
	return Rule{Decision: Deny, Tool: "*", Match: match}.matches(ask.Tool, argumentOf(ask, dir))
}

func TestAllowedCommands(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		match, command string
		want           bool
	}{
		{"make test", "make test", true},
		{"make test", "make test ", false},
		{"make test", "make  test", false},
		{"make", "make test", false},
		{"test", "make test", false},
		{"make *", "make test", true},
		{"make *", "make ", true},
		{"make *", "make", false},
		{"make ?", "make x", true},
		{"make ?", "make é", true},
		{"make ?", "make xy", false},
		{"*", "make test", true},
		{"git commit -m *", `git commit -m "it's done"`, true},
		// what a shell would make another command of
		{"make *", "make test; rm -rf .", false},
		{"make *", "make test && rm -rf .", false},
		{"make *", "make test & rm -rf .", false},
		{"make *", "make test | sh", false},
		{"make *", "make $(rm -rf .)", false},
		{"make *", "make `rm -rf .`", false},
		{"make *", "make test\nrm -rf .", false},
		{"make *", "make test\rrm", false},
		{"make *", "make > Makefile", false},
		{"make *", "make <(x)", false},
		{"make *", "make ${X}", false},
		{"make *", "make $X", false},
		{"make *", `make \`, false},
		{"make *", "make {a,b}", false},
		{"make *", "make #", false},
		{"make * check", "make x # check", false},
		{"make ?", "make ;", false},
		{"*", "a;b", false},
		{"make*", "make;rm", false},
		// … unless the rule spells it out
		{"make * && make *", "make a && make b", true},
		{"make * && make *", "make a && make b && rm c", false},
		{"make * | tee log", "make a | tee log", true},
		{"make * | tee log", "make a | sh | tee log", false},
		{`echo * ";"`, `echo " ";"`, false}, // a quote would set the semicolon free
		{"a; b; c", "a; b; c", true},
		{`ls \*.go`, "ls *.go", true},
		{`ls \*.go`, "ls x.go", false},
		{"ls *.go", "ls *.go", false},
		// out of the directory that the pattern names
		{"cat src/*", "cat src/a/b", true},
		{"cat src/*", "cat src/../../etc/passwd", false},
		{"cat src/*", `cat src/".."/x`, false},
		{"cat src/*", `cat src/.'.'/x`, false},
		{"cat src/*", `cat src/.""./x`, false},
		{"cat src/*", "cat src/.?/x", false},
		{"cat ../*", "cat ../a", true},
		{"cat ../*", "cat ../../a", false},
		{"git diff *", "git diff main..feature", true},
	} {
		if got := allows(c.match, bash(c.command), "/srv/app"); got != c.want {
			t.Errorf("allow %q matches %q: %v", c.match, c.command, got)
		}
	}
}

func TestDeniedCommands(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		match, command string
		want           bool
	}{
		{"rm *", "rm -rf x; ls", true}, // a deny reads widely
		{"rm *", "  rm   -rf x", true},
		{"*rm *", "ls && rm x", true},
		{"rm *", "ls", false},
		{"rm", "rm x", false},
	} {
		if got := denies(c.match, bash(c.command), "/srv/app"); got != c.want {
			t.Errorf("deny %q matches %q: %v", c.match, c.command, got)
		}
	}
}

// Inputs that say more than their command does, or the same thing twice, are matched by
// nothing but themselves; a deny sees through them.
func TestInputsThatHideSomething(t *testing.T) {
	t.Parallel()
	plain := agent.Ask{Tool: "Bash", Action: agent.ActionCommandRun}
	for input, want := range map[string]bool{
		`{"command":"make test"}`:                                             true,
		`{"command":"make test","description":"tests","timeout":5}`:           true,
		`{"command":"make test","cwd":"/srv/app"}`:                            true,
		`{"command":"make test","cwd":"/srv/app/"}`:                           true,
		`{"command":"make test","cwd":"/"}`:                                   false,
		`{"command":"make test","dangerouslyDisableSandbox":true}`:            false,
		`{"command":"make test","command":"make test"}`:                       false,
		`{"command":"make test","cmd":"rm -rf ."}`:                            false,
		`{"Command":"make test"}`:                                             false,
		`{"command":"rm -rf .","Command":"make test"}`:                        false,
		`{"command":["make","test"]}`:                                         false,
		`"make test"`:                                                         false,
		`{"command":"make test"`:                                              false,
		``:                                                                    false,
		`null`:                                                                false,
		`{"command":"make test","description":"x","description":"y"}`:         false,
		`{"command":"make \u0074est"}`:                                        true,
		`{"command":"make test\u0000"}`:                                       false,
		`{"command":"make test","env":{"LD_PRELOAD":"/tmp/x.so"}}`:            false,
		`{"command":"make test","run_in_background":true,"reason":"slow it"}`: true,
	} {
		plain.Input = json.RawMessage(input)
		for _, match := range []string{"make test", "make *", "make ????"} {
			if got := allows(match, plain, "/srv/app"); got != want {
				t.Errorf("%q matches %s: %v", match, input, got)
			}
		}
	}
	plain.Input = json.RawMessage(`{"command":"rm -rf .","dangerouslyDisableSandbox":true}`)
	if !denies("rm *", plain, "/srv/app") || allows("*", plain, "/srv/app") {
		t.Error("more arguments than one hide a command")
	}
	whole := quoteGlob(string(plain.Input))
	if !allows(whole, plain, "/srv/app") {
		t.Errorf("%s does not match what it was made of", whole)
	}
}

func TestPaths(t *testing.T) {
	t.Parallel()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, "app")
	if err := os.MkdirAll(filepath.Join(dir, "src"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(root, filepath.Join(dir, "src", "out")); err != nil {
		t.Fatal(err)
	}
	write := func(path string) agent.Ask {
		b, _ := json.Marshal(map[string]string{"file_path": path, "content": "x; y"})
		return agent.Ask{Tool: "Write", Action: agent.ActionFileWrite, Input: b}
	}
	match := quoteGlob(dir) + "/src/*"
	for path, want := range map[string]bool{
		"src/a.go": true, dir + "/src/new/a.go": true, "./src//a.go": true, "src": false,
		"src/../Makefile": false, dir + "/src/../../x": false, "src/out/x": false, "srcs/a": false, "/etc/passwd": false,
	} {
		if got := allows(match, write(path), dir); got != want {
			t.Errorf("%q is allowed: %v", path, got)
		}
	}
	for path, want := range map[string]bool{"src/out/x": true, "src/../src/a": true, "src/a": true, "Makefile": false} {
		if got := denies(match, write(path), dir); got != want {
			t.Errorf("%q is denied: %v", path, got)
		}
	}
	both := agent.Ask{Tool: "Move", Action: agent.ActionTool, Input: []byte(`{"path":"src/a","destination":"/etc/passwd"}`)}
	if allows(match, both, dir) {
		t.Error("the second path of a tool is not looked at")
	}
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	fetch := func(u string) agent.Ask {
		b, _ := json.Marshal(map[string]string{"url": u, "prompt": "read it"})
		return agent.Ask{Tool: "WebFetch", Action: agent.ActionTool, Input: b}
	}
	for _, c := range []struct {
		match, url string
		want       bool
	}{
		{"https://example.com/", "https://example.com/", true},
		{"https://example.com/*", "https://example.com/a?b=c#d", true},
		{"https://example.com/*", "https://example.com", true},
		{"https://example.com/*", "https://example.com.evil.net/", false},
		{"https://example.com/*", "http://example.com/", false},
		{"https://*.example.com/*", "https://docs.example.com/x", true},
		{"https://*.example.com/*", "https://evil.net/x.example.com/", false},
		{"https://*.example.com/*", "https://evil.net?.example.com/", false},
		{"https://*.example.com/*", "https://evil.net#.example.com/", false},
		{"https://*.example.com/*", `https://evil.net\.example.com/`, false},
		{"https://*.example.com/*", "https://user@docs.example.com/", false},
		{"https://example.com/a/*", "https://example.com/a/../b", false},
		{"https://example.com/a/*", "https://example.com/a/%2e%2e/b", false},
		{"*example.com*", "https://evil.net/example.com", false},
		{"*", "https://anything.net/", true},
	} {
		if got := allows(c.match, fetch(c.url), "/srv/app"); got != c.want {
			t.Errorf("%q matches %q: %v", c.match, c.url, got)
		}
	}
}

func TestDecisive(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	x := Execution{ID: "x", SessionRef: "s", Dir: "/srv/app", RequestedBy: "slack:U1"}
	rule := func(id string, d Verdict, s Scope, subject string) Rule {
		return Rule{ID: id, Decision: d, Scope: s, Subject: subject, Tool: "Bash", Match: "make *", CreatedAt: now}
	}
	expired := rule("expired", Deny, ScopeRun, "x")
	expired.ExpiresAt = &now
	older := rule("older", Allow, ScopeUser, "slack:U1")
	older.CreatedAt = now.Add(-time.Hour)
	for name, c := range map[string]struct {
		rules []Rule
		want  string
	}{
		"none":                        {nil, ""},
		"another run":                 {[]Rule{rule("a", Allow, ScopeRun, "y")}, ""},
		"another project by prefix":   {[]Rule{rule("a", Allow, ScopeProject, "/srv/ap"), rule("b", Allow, ScopeProject, "/srv"), rule("c", Allow, ScopeProject, "/srv/app2")}, ""},
		"a subject of another scope":  {[]Rule{rule("a", Allow, ScopeRun, "slack:U1"), rule("b", Allow, ScopeUser, "x")}, ""},
		"an unknown scope or verdict": {[]Rule{rule("a", Allow, "world", ""), rule("b", "maybe", ScopeRun, "x")}, ""},
		"expired":                     {[]Rule{expired}, ""},
		"the narrowest":               {[]Rule{rule("u", Allow, ScopeUser, "slack:U1"), rule("r", Allow, ScopeRun, "x"), rule("p", Allow, ScopeProject, "/srv/app")}, "r"},
		"a deny before all":           {[]Rule{rule("r", Allow, ScopeRun, "x"), rule("u", Deny, ScopeUser, "slack:U1")}, "u"},
		"the narrowest deny":          {[]Rule{rule("u", Deny, ScopeUser, "slack:U1"), rule("s", Deny, ScopeSession, "s"), rule("r", Allow, ScopeRun, "x")}, "s"},
		"the newest":                  {[]Rule{older, rule("newer", Allow, ScopeUser, "slack:U1")}, "newer"},
	} {
		for range 2 {
			got, found := decisive(c.rules, x, Approval{Ask: bash("make test")}, now)
			if got.ID != c.want || found != (c.want != "") {
				t.Errorf("%s: %q, %v, want %q", name, got.ID, found, c.want)
			}
			slices.Reverse(c.rules)
		}
	}
	nothing := Execution{ID: "y", Dir: "/srv/other"}
	if r, found := decisive([]Rule{rule("a", Allow, ScopeSession, ""), rule("b", Allow, ScopeUser, "")}, nothing, Approval{Ask: bash("make x")}, now); found {
		t.Errorf("%s is about an execution that has no session and no user", r.ID)
	}
	if _, found := decisive([]Rule{{Decision: Allow, Scope: ScopeRun, Subject: "x", Tool: "*", Match: "*"}}, x, Approval{}, now); found {
		t.Error("a rule is about an ask without a tool")
	}
}

// What is not shown as a whole may hide anything; only a deny is still held against it.
func TestShortenedInput(t *testing.T) {
	t.Parallel()
	ask := bash("make test…")
	ask.Shortened = true
	if allows("*", ask, "/srv/app") || allows("make test…", ask, "/srv/app") || !denies("make *", ask, "/srv/app") {
		t.Error("a rule allows what it cannot see")
	}
}

// naive is what glob.match means, written down as plainly as it can be.
func naive(pattern []globToken, text string, refuse func(byte) bool) bool {
	if len(pattern) == 0 {
		return text == ""
	}
	t, rest := pattern[0], pattern[1:]
	if t.kind == globAny {
		return naive(rest, text, refuse) || text != "" && (refuse == nil || !refuse(text[0])) && naive(pattern, text[1:], refuse)
	}
	if text == "" {
		return false
	}
	if t.kind == globOne {
		_, n := utf8.DecodeRuneInString(text)
		return (refuse == nil || !refuse(text[0])) && naive(rest, text[n:], refuse)
	}
	return t.lit == text[0] && naive(rest, text[1:], refuse)
}

func FuzzGlob(f *testing.F) {
	for _, s := range [][2]string{{"a*b", "aab"}, {"*;;*q", ";;;q"}, {`\**?`, "*xé"}, {"*a;*b", "a;a;b"}, {"a?", "a"}, {"", ""}, {`a\`, `a\`}} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if len(pattern) > 12 || len(text) > 20 {
			return // the plain way takes exponential time
		}
		g := parseGlob(pattern)
		for _, refuse := range []func(byte) bool{nil, isShell} {
			if got, want := g.match(text, refuse), naive(g.tokens, text, refuse); got != want {
				t.Errorf("%q matches %q: %v, want %v (restricted: %v)", pattern, text, got, want, refuse != nil)
			}
		}
		if !parseGlob(quoteGlob(text)).match(text, isShell) {
			t.Errorf("%q, quoted, does not match itself", text)
		}
	})
}

// FuzzAllowedCommand holds that what a wildcard stands for is never more than words.
func FuzzAllowedCommand(f *testing.F) {
	for _, s := range []string{"test", "test; rm -rf .", "a && b", "$(x)", "`x`", "a\nb", "a > b", `"a`, `.'.'/x`, "a|b", "#", "é", "\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, tail string) {
		if allows("make *", bash("make "+tail), "/srv/app") {
			if i := strings.IndexFunc(tail, func(c rune) bool { return c < 0x80 && isShell(byte(c)) }); i >= 0 {
				t.Errorf("%q is allowed, with %q", tail, tail[i])
			}
			if parents(tail) > 0 {
				t.Errorf("%q is allowed and leads upwards", tail)
			}
		}
		if allows("make", bash("make "+tail), "/srv/app") {
			t.Errorf("%q is allowed by a part of it", tail)
		}
	})
}

func FuzzArgument(f *testing.F) {
	for _, s := range []string{`{"command":"ls"}`, `{"command":"ls","command":"rm"}`, `{"path":"x","y":1}`, `{"url":"http://x"}`, `[]`, `{`, `{"a":{"command":"x"}}`, ``} {
		f.Add([]byte(s), "command_run")
		f.Add([]byte(s), "file_edit")
	}
	f.Fuzz(func(t *testing.T, input []byte, action string) {
		ask := agent.Ask{Tool: "T", Action: agent.Action(action), Input: input}
		arg := argumentOf(ask, "/srv/app")
		r := Rule{Decision: Allow, Tool: "T"}
		r.complete("T", arg, "/srv/app")
		if r.matches("T", arg) == arg.unsure {
			t.Errorf("the rule %q made of %s matches it: %v", r.Match, input, arg.unsure)
		}
		r.Decision = Deny
		if !r.matches("T", arg) {
			t.Errorf("the denying rule %q made of %s does not match it", r.Match, input)
		}
		RiskOf(ask, "/srv/app")
	})
}
