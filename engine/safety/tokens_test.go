package safety_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/threadmill/threadmill/engine/safety"
)

func render(tb testing.TB, command []string, schema, args object) ([]string, error) {
	tb.Helper()
	s := compile(tb, schema)
	resolved, err := s.Check(args)
	if err != nil {
		return nil, err
	}
	return safety.Tokens(command, resolved, s)
}

func TestTokens(t *testing.T) {
	t.Parallel()
	schema := object{"required": []any{"unit"}, "properties": object{
		"unit": object{"type": "string"}, "lines": object{"type": "integer"}, "on": object{"type": "boolean"}, "f": object{"type": "number"},
		"dash": object{"type": "string", "pattern": "^-?[a-z]+$"}, "loose": object{"type": "string", "pattern": "-?[a-z]+"},
		"below": object{"type": "integer", "minimum": -5},
	}}
	all := []string{"prog", "-u", "{{unit}}", "{{lines}}", "{{on}}", "{{f}}", "{{dash}}", "{{loose}}", "{{below}}", "--"}
	for name, c := range map[string]struct {
		args object
		want []string
	}{
		"optional ones left out": {object{"unit": "a"}, []string{"prog", "-u", "a", "--"}},
		"all":                    {object{"unit": "a b", "lines": 5.0, "on": "true", "f": 0.25, "dash": "-x", "loose": "x", "below": "-3"}, []string{"prog", "-u", "a b", "5", "true", "0.25", "-x", "x", "-3", "--"}},
		"shell":                  {object{"unit": "; rm -rf $(HOME) `x` | & > '\""}, []string{"prog", "-u", "; rm -rf $(HOME) `x` | & > '\"", "--"}},
		"placeholder":            {object{"unit": "{{lines}}"}, []string{"prog", "-u", "{{lines}}", "--"}},
		"empty":                  {object{"unit": ""}, []string{"prog", "-u", "", "--"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := render(t, all, schema, c.args)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	for name, args := range map[string]object{
		"an option":                   {"unit": "-rf"},
		"an option by a loose rule":   {"unit": "a", "loose": "-x"},
		"a number that is an option":  {"unit": "a", "lines": -5},
		"a fraction":                  {"unit": "a", "f": -0.5},
		"a dash alone":                {"unit": "-"},
		"below the declared minimum":  {"unit": "a", "below": -6},
		"an object":                   {"unit": object{}},
		"a dash and something beyond": {"unit": "a", "dash": "-x1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, err := render(t, all, schema, args); err == nil {
				t.Errorf("rendered %q", got)
			}
		})
	}
}

// TestTokensUnchecked: what did not go through the schema is refused all the same.
func TestTokensUnchecked(t *testing.T) {
	t.Parallel()
	s := compile(t, object{"required": []any{"a"}, "properties": object{"a": object{}}})
	for name, c := range map[string]struct {
		command []string
		args    object
		want    string
	}{
		"missing":    {[]string{"p", "{{a}}"}, nil, "a: is required"},
		"newline":    {[]string{"p", "{{a}}"}, object{"a": "x\ny"}, "a: holds the control character newline"},
		"list":       {[]string{"p", "{{a}}"}, object{"a": []string{"x"}}, "a: must be a plain value"},
		"glued":      {[]string{"p", "x{{a}}"}, object{"a": "x"}, "must be either literal text or exactly one {{name}}"},
		"two":        {[]string{"p", "{{a}}{{a}}"}, object{"a": "x"}, "must be either literal"},
		"spaced":     {[]string{"p", "{{ a }}"}, object{"a": "x"}, "must be either literal"},
		"half":       {[]string{"p", "a}}"}, object{"a": "x"}, "must be either literal"},
		"undeclared": {[]string{"p", "{{b}}"}, object{"a": "x"}, "{{b}} is not declared"},
		"program":    {[]string{"{{a}}"}, object{"a": "x"}, "the program has to be named literally"},
		"no program": {nil, nil, "is empty"},
		"an option":  {[]string{"-p"}, nil, "is no name of a program"},
		"literal":    {[]string{"p", "a\nb"}, nil, "holds the control character newline"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := safety.Tokens(c.command, c.args, s)
			if got != nil || err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
		})
	}
}

func TestPrompt(t *testing.T) {
	t.Parallel()
	args := object{"a": "{{b}} {{text}}", "b": int64(7), "text": "$0 ${1}\n{{a}}", "docs_path": "/docs"}
	got, err := safety.Prompt("{{docs_path}}: {{a}} {{ b }}{{absent}}. {{ .Values }} {{a b}} {} }}{{\n{{text}}", args)
	if want := "/docs: {{b}} {{text}} 7. {{ .Values }} {{a b}} {} }}{{\n$0 ${1}\n{{a}}"; err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	if _, err := safety.Prompt("{{a}}", object{"a": []any{}}); err == nil {
		t.Error("a list was inserted")
	}
	for _, args := range []object{nil, {"docs_path": ""}} {
		if _, err := safety.Prompt("read {{docs_path}}/README.md", args); err == nil || !strings.Contains(err.Error(), "docs_path: is not set") {
			t.Errorf("%v: %v", args, err)
		}
	}
}

func TestCheckPrompt(t *testing.T) {
	t.Parallel()
	s := compile(t, object{"properties": object{"a": object{}}})
	for prompt, want := range map[string]string{
		"{{a}} {{text}} {{title}} {{context}} {{docs_path}} {{ .x }}": "",
		"  \n":          "is empty",
		"{{b}} {{ c }}": "{{b}} is neither declared",
	} {
		if err := safety.CheckPrompt(prompt, s); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", prompt, err, want)
		}
	}
}

// FuzzTokens: no value ever makes other tokens than one for each placeholder, holding
// the value itself.
func FuzzTokens(f *testing.F) {
	for _, s := range []string{"a", "-rf", "a b", "{{b}}", "$(id)", "'\"", "\x00", "\n", "\u2028", "--", "", "-"} {
		f.Add(s, "x")
	}
	schema := compile(f, object{"required": []any{"a"}, "properties": object{
		"a": object{"type": "string"}, "b": object{"type": "string", "pattern": "^-?[a-z]*$"},
	}})
	f.Fuzz(func(t *testing.T, a, b string) {
		resolved, err := schema.Check(object{"a": a, "b": b})
		if err != nil {
			return
		}
		got, err := safety.Tokens([]string{"p", "{{a}}", "-o", "{{b}}"}, resolved, schema)
		if err != nil {
			return
		}
		if want := []string{"p", a, "-o", b}; !slices.Equal(got, want) {
			t.Fatalf("got %q, want %q", got, want)
		}
		if strings.HasPrefix(a, "-") || strings.ContainsAny(a+b, "\x00\n\r\x1b\x7f") {
			t.Fatalf("rendered %q", got)
		}
	})
}

// FuzzPrompt: a value is inserted as it is and never looked at again.
func FuzzPrompt(f *testing.F) {
	for _, s := range []string{"a", "{{b}}", "{{a}}", "$1", "{{", "}}", "{{ text }}", "\\"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		got, err := safety.Prompt("<{{a}}|{{b}}|{{ a }}>", object{"a": a, "b": b})
		if want := fmt.Sprintf("<%s|%s|%s>", a, b, a); err != nil || got != want {
			t.Fatalf("got %q, %v, want %q", got, err, want)
		}
	})
}

// FuzzCheck: whatever comes in as JSON, what comes out is plain and free of control
// characters.
func FuzzCheck(f *testing.F) {
	f.Add("5", 1.5, true)
	f.Add("\x85", 1e300, false)
	schema := compile(f, unitSchema())
	f.Fuzz(func(t *testing.T, s string, n float64, b bool) {
		for _, v := range []any{s, n, b, []any{s}, object{s: n}, nil} {
			for _, name := range []string{"unit", "lines", "ratio", "reverse", "level", s} {
				got, err := schema.Check(object{"unit": "u", name: v})
				if err != nil {
					if strings.ContainsAny(err.Error(), "\x00\n\x1b") {
						t.Fatalf("the problem repeats control characters: %q", err)
					}
					continue
				}
				switch v := got[name].(type) {
				case string:
					if strings.ContainsAny(v, "\x00\n\x1b\x7f") {
						t.Fatalf("%s: %q", name, v)
					}
				case int64, float64, bool:
				default:
					t.Fatalf("%s: %T", name, v)
				}
			}
		}
	})
}

// FuzzPlaceholders: the placeholders of a prompt are those that this pattern finds.
func FuzzPlaceholders(f *testing.F) {
	long := strings.Repeat("a", 65)
	for _, s := range []string{"{{a}}", "{{{a}}}", "{{ a  }} {{b", "{{{{a}}}}", "{{a }b}}", "{{1}}{{a-1}}", "{{}}", "{{" + long + "}}", "{{" + long[1:] + "}}"} {
		f.Add(s)
	}
	pattern := regexp.MustCompile(`\{\{ *([A-Za-z_][A-Za-z0-9_-]{0,63}) *\}\}`)
	f.Fuzz(func(t *testing.T, prompt string) {
		args := object{}
		for _, m := range pattern.FindAllStringSubmatch(prompt, -1) {
			args[m[1]] = "<" + m[1] + ">"
		}
		got, err := safety.Prompt(prompt, args)
		if want := pattern.ReplaceAllString(prompt, "<$1>"); err != nil || got != want {
			t.Fatalf("%q: got %q, %v, want %q", prompt, got, err, want)
		}
	})
}
