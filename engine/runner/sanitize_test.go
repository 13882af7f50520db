package runner

import (
	"bytes"
	"regexp"
	"testing"
	"unicode/utf8"
)

func TestSanitize(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ in, want string }{
		"plain":                 {"hello\tworld\n", "hello\tworld\n"},
		"colours":               {"\x1b[1;31mred\x1b[0m \x1b[38:2:1:2:3mx\x1b[m", "\x1b[1;31mred\x1b[0m \x1b[38:2:1:2:3mx\x1b[m"},
		"cursor and clear":      {"a\x1b[2Jb\x1b[10;10Hc\x1b[?1049hd", "abcd"},
		"private style":         {"a\x1b[>4;2mb\x1b[?4mc", "abc"},
		"title":                 {"a\x1b]0;title\ab\x1b]2;title\x1b\\c", "abc"},
		"clipboard":             {"a\x1b]52;c;aGVsbG8=\ab", "ab"},
		"passthrough":           {"a\x1bPtmux;\x1b\x1b]52;c;eA==\a\x1b\\b", "ab"},
		"string without an end": {"a\x1b]0;title\nnext line", "a\nnext line"},
		"reset":                 {"a\x1bcb\x1b(0c\x1b7d", "abcd"},
		"carriage returns":      {"10%\r20%\r\ndone\r\n", "10%\n20%\ndone\n"},
		"bell and backspace":    {"a\a\b\x00\x7fb", "ab"},
		"C1 controls":           {"a\u009b2Jb\u0090c", "a2Jbc"},
		"invalid UTF-8":         {"a\x9bb\xffc", "a\uFFFDb\uFFFDc"},
		"unicode":               {"grüße 日本 🎉", "grüße 日本 🎉"},
		"cut sequence":          {"a\x1b[3", "a"},
		"cut escape":            {"a\x1b", "a"},
	} {
		if got := string(sanitize(nil, []byte(tc.in))); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

var style = regexp.MustCompile(`\x1b\[[0-9;:]*m`)

func FuzzSanitize(f *testing.F) {
	for _, s := range []string{"plain\n", "\x1b[31mred\x1b[0m", "\x1b]52;c;eA==\a", "\x1bP\x1b\\", "\x9b2J", "\r\n\r"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		out := sanitize(nil, in)
		if !utf8.Valid(out) && utf8.Valid(in) {
			t.Errorf("%q became invalid: %q", in, out)
		}
		for _, r := range string(style.ReplaceAll(out, nil)) {
			if r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r <= 0x9f {
				t.Errorf("%q kept the control character %U: %q", in, r, out)
			}
		}
		if again := sanitize(nil, out); !bytes.Equal(again, out) {
			t.Errorf("%q: %q is not stable: %q", in, out, again)
		}
	})
}

func FuzzCastOutput(f *testing.F) {
	f.Add([]byte(`[1.5,"o","hello\r\n"]`))
	f.Add([]byte(`{"version":2}`))
	f.Add([]byte(`[1,"r","80x24"]`))
	f.Fuzz(func(t *testing.T, line []byte) {
		if text, ok := castOutput(line); !ok && text != "" {
			t.Errorf("%q is no output, yet gives %q", line, text)
		}
	})
}
