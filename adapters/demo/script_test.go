package demo

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseScript(t *testing.T) {
	t.Parallel()
	talk := func(text string) []step { return []step{{word: wTalk, text: text}} }
	for text, want := range map[string][]step{
		"":                           talk(""),
		"hello; how are you?":        talk("hello; how are you?"),
		"say hello":                  {{word: wSay, text: "hello"}},
		" SAY hello ;; think\tno ; ": {{word: wSay, text: "hello"}, {word: wThink, text: "no"}},
		"say a\\; b;say c:\\d":       {{word: wSay, text: "a; b"}, {word: wSay, text: `c:\d`}},
		"say it's; say 'so'":         {{word: wSay, text: "it's"}, {word: wSay, text: "'so'"}},
		"say a\nthink b\r\nhm":       {{word: wSay, text: "a"}, {word: wThink, text: "b"}, {word: wTalk, text: "hm"}},
		"lines 3":                    {{word: wLines, text: "3", count: 3}},
		"lines 3 20ms":               {{word: wLines, text: "3 20ms", count: 3, wait: 20 * time.Millisecond}},
		"lines of code":              talk("lines of code"),
		"lines -1":                   talk("lines -1"),
		"sleep 1m":                   {{word: wSleep, text: "1m", wait: time.Minute}},
		"sleep 0.5":                  {{word: wSleep, text: "0.5", wait: time.Second / 2}},
		"sleep well":                 talk("sleep well"),
		"sleep -1s":                  talk("sleep -1s"),
		"sleep NaN":                  talk("sleep NaN"),
		"tool ls -l 'a b'":           {{word: wTool, text: "ls -l 'a b'", argv: []string{"ls", "-l", "a b"}}},
		"tool sh -c 'a; b'; say c":   {{word: wTool, text: "sh -c 'a; b'", argv: []string{"sh", "-c", "a; b"}}, {word: wSay, text: "c"}},
		"tool it's":                  talk("tool it's"),
		"tool":                       talk("tool"),
		`approve echo \; "\""`:       {{word: wApprove, text: `echo ; "\""`, argv: []string{"echo", ";", `"`}}},
		"ask Tea? | yes |  | no ":    {{word: wAsk, text: "Tea?", choices: []string{"yes", "no"}}},
		"ask Why?":                   {{word: wAsk, text: "Why?"}},
		"ask | a":                    talk("ask | a"),
		"edit f.txt a line":          {{word: wEdit, text: "a line", name: "f.txt"}},
		"edit f.txt":                 talk("edit f.txt"),
		"usage 0.5 100":              {{word: wUsage, text: "0.5 100", usd: 0.5, count: 100}},
		"usage -1 100":               talk("usage -1 100"),
		"usage inf 1":                talk("usage inf 1"),
		"limit 5m":                   {{word: wLimit, text: "5m", wait: 5 * time.Minute}},
		"fail":                       {{word: wFail}},
		"fail no luck":               {{word: wFail, text: "no luck"}},
		"crash":                      {{word: wCrash}},
		"crash course":               talk("crash course"),
		"ignore-term":                {{word: wIgnoreTerm}},
		"fork":                       {{word: wFork, wait: time.Hour}},
		"fork 10s":                   {{word: wFork, text: "10s", wait: 10 * time.Second}},
		"flood 10":                   {{word: wFlood, text: "10", count: 10}},
		"flood 2k":                   {{word: wFlood, text: "2k", count: 2048}},
		"flood 9G":                   {{word: wFlood, text: "9G", count: 9 << 30}},
		"flood 9999999999G":          talk("flood 9999999999G"),
		"flood":                      talk("flood"),
		"env":                        {{word: wEnv}},
		"recall":                     {{word: wRecall}},
	} {
		got := parseScript(text)
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(step{})); diff != "" {
			t.Errorf("parseScript(%q) (-want +got):\n%s", text, diff)
		}
	}
}

// TestHelp holds the help against the words that there are.
func TestHelp(t *testing.T) {
	t.Parallel()
	for _, w := range []word{
		wSay, wThink, wLines, wSleep, wTool, wApprove, wAsk, wEdit, wUsage, wLimit,
		wFail, wCrash, wIgnoreTerm, wFork, wFlood, wEnv, wRecall,
	} {
		if !strings.Contains(Help(), "\n  "+string(w)+" ") {
			t.Errorf("Help does not explain %q", w)
		}
	}
}

func TestSplitArgv(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][]string{
		"":                  nil,
		"  \t ":             nil,
		"a  b\tc":           {"a", "b", "c"},
		`a 'b c' "d e"`:     {"a", "b c", "d e"},
		`'' ""`:             {"", ""},
		`a\ b c\\d`:         {"a b", `c\d`},
		`"a\"b" 'a\b'`:      {`a"b`, `a\b`},
		`x'y'"z"`:           {"xyz"},
		"$(date) `id` a;b&": {"$(date)", "`id`", "a;b&"},
	} {
		got, err := splitArgv(line)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("splitArgv(%q) = %v (-want +got):\n%s", line, err, diff)
		}
	}
	for _, line := range []string{`'a`, `"a`, `a\`, `"a\"`} {
		if got, err := splitArgv(line); err == nil {
			t.Errorf("splitArgv(%q) = %q, want an error", line, got)
		}
	}
}

func FuzzParseScript(f *testing.F) {
	for _, text := range []string{"say a; say b", "tool a 'b; c'", "lines 3 1s", "edit f t", "ask q | a", "a\\;b", "hello"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		steps := parseScript(text)
		if len(steps) == 0 {
			t.Fatal("a message has no step")
		}
		for _, s := range steps {
			checkStep(t, s)
		}
	})
}

// checkStep checks that a step can be run without looking at it again.
func checkStep(t *testing.T, s step) {
	t.Helper()
	switch {
	case parserOf(s.word) == nil && s.word != wTalk:
		t.Errorf("unknown word %q", s.word)
	case s.count < 0 || s.wait < 0 || s.usd < 0:
		t.Errorf("%+v has a negative number", s)
	case (s.word == wTool || s.word == wApprove) && len(s.argv) == 0:
		t.Errorf("%+v has no argv", s)
	case s.word == wEdit && (s.name == "" || s.text == ""), s.word == wAsk && s.text == "":
		t.Errorf("%+v is not complete", s)
	}
}

// FuzzSplitArgv checks that quoting what was split gives the same words again.
func FuzzSplitArgv(f *testing.F) {
	for _, line := range []string{`a 'b c' "d e"`, `a\ b`, `''`, `"\""`} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		argv, err := splitArgv(line)
		if err != nil {
			return
		}
		quoted := make([]string, len(argv))
		for i, arg := range argv {
			quoted[i] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
		again, err := splitArgv(strings.Join(quoted, " "))
		if diff := cmp.Diff(argv, again); diff != "" || err != nil {
			t.Errorf("%q: %v\n%s", line, err, diff)
		}
	})
}
