package strictyaml_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/threadmill/threadmill/templates/strictyaml"
)

type settings struct {
	Name    string          `yaml:"name"`
	Count   int             `yaml:"count"`
	Ratio   float64         `yaml:"ratio"`
	On      bool            `yaml:"on"`
	Every   time.Duration   `yaml:"every"`
	Secret  secret          `yaml:"secret"`
	Tags    []string        `yaml:"tags"`
	Nested  nested          `yaml:"nested"`
	Items   map[string]item `yaml:"items"`
	List    []nested        `yaml:"list"`
	Free    map[string]any  `yaml:"free"`
	Ignored string
}

type nested struct {
	Depth int   `yaml:"depth"`
	Flag  *bool `yaml:"flag"`
}

type item struct {
	Size int `yaml:"size"`
	Max  int `yaml:"max"`
}

func (i *item) SetDefaults() { i.Max = 7 }

// secret refuses some texts without repeating them.
type secret string

func (s *secret) UnmarshalText(b []byte) error {
	if strings.HasPrefix(string(b), "bad") {
		return errors.New("cannot be used")
	}
	*s = secret(b)
	return nil
}

func TestDecode(t *testing.T) {
	t.Parallel()
	got := settings{Name: "default", Count: 3}
	doc, err := strictyaml.Decode("a.yaml", []byte(`# a comment
count: &n 5
ratio: 2
on: true
every: 1m30s
secret: hush
tags: [a:b, "b c"]
nested:
  depth: *n
  flag: false
items:
  one: {size: 1}
  two:
list:
- depth: 1
- {depth: 2}
free:
  a: [1, 2.5, x, true, null]
  b:
    c: |
      text
`), &got)
	if err != nil {
		t.Fatal(err)
	}
	no := false
	want := settings{
		Name: "default", Count: 5, Ratio: 2, On: true, Every: 90 * time.Second, Secret: "hush", Tags: []string{"a:b", "b c"},
		Nested: nested{Depth: 5, Flag: &no}, Items: map[string]item{"one": {1, 7}, "two": {0, 7}},
		List: []nested{{Depth: 1}, {Depth: 2}},
		Free: map[string]any{"a": []any{int64(1), 2.5, "x", true, nil}, "b": map[string]any{"c": "text\n"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for path, want := range map[string]string{
		"items.one.size": "a.yaml:12:15: items.one.size: m",
		"items.one.max":  "a.yaml:12:3: items.one.max: m",
		"list[1].depth":  "a.yaml:16:11: list[1].depth: m",
		"nested":         "a.yaml:8:1: nested: m",
		"elsewhere":      "a.yaml:2:1: elsewhere: m",
	} {
		if got := doc.Problem(path, "m").String(); got != want {
			t.Errorf("place of %s: got %s, want %s", path, got, want)
		}
	}
	if !doc.Has("items.one.size") || doc.Has("items.one.max") {
		t.Error("the document does not know what it says")
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	t.Parallel()
	var s settings
	_, err := strictyaml.Decode("dir/a.yaml", []byte(`name: 5
cuont: 1
count: lots
count: 2
ratio: [1]
on: "true"
every: 5
secret: bad-hush
tags: a
nested: hush
items:
  one: {sizes: 1}
list:
- depth: 1.5
- other: 1
unheard-of: 1
Ignored: x
`), &s)
	want := `dir/a.yaml:1:7: name: must be text, not a number; put it in quotes
dir/a.yaml:2:1: cuont: is not a known key; did you mean count?
dir/a.yaml:3:8: count: must be a whole number, not text
dir/a.yaml:4:1: count: stands here a second time
dir/a.yaml:5:8: ratio: must be a number, not a list
dir/a.yaml:6:5: on: must be true or false, not text
dir/a.yaml:7:8: every: must be a duration with its unit, such as 30s, 5m or 720h
dir/a.yaml:8:9: secret: cannot be used
dir/a.yaml:9:7: tags: must be a list, not text
dir/a.yaml:10:9: nested: must be a mapping (key: value), not text
dir/a.yaml:12:9: items.one.sizes: is not a known key; did you mean size?
dir/a.yaml:14:10: list[0].depth: must be a whole number, not a number
dir/a.yaml:15:3: list[1].other: is not a known key; there are: depth, flag
dir/a.yaml:16:1: unheard-of: is not a known key; there are: count, every, free, items, list, name, nested, on, ratio, secret, tags
dir/a.yaml:17:1: Ignored: is not a known key; there are: count, every, free, items, list, name, nested, on, ratio, secret, tags`
	if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(fmt.Sprint(err), "\n")); diff != "" {
		t.Error(diff)
	}
	if _, ok := errors.AsType[strictyaml.Problems](err); !ok {
		t.Errorf("error is a %T", err)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ in, want string }{
		"two documents":     {"name: a\n---\nname: b\n", "a.yaml:2:1: holds more than one document"},
		"tag":               {"name: !!str 5\n", "a.yaml:1:7: name: has a tag"},
		"merge key":         {"nested: &n {depth: 1}\nitems:\n  one:\n    <<: *n\n", "merge keys (<<) are not supported"},
		"no such anchor":    {"name: *x\n", "a.yaml:1:7: refers to an anchor that is not defined before"},
		"alias to itself":   {"free: &x {a: *x}\n", "is too large or nested too deeply"},
		"complex key":       {"free:\n  ? [a]\n  : b\n", "free: keys must be plain words"},
		"null for scalar":   {"count:\n", "count: must be a whole number, not nothing"},
		"root is a list":    {"- a\n", "must be a mapping"},
		"broken":            {"name: [a\n", "a.yaml:1:"},
		"tabs":              {"nested:\n\tdepth: 1\n", "a.yaml:2:2: is not valid YAML"},
		"large number":      {"count: 99999999999999999999\n", "count: must be a whole number"},
		"not a number":      {"ratio: .nan\n", "ratio: must be a number"},
		"too large":         {"name: " + strings.Repeat("a", strictyaml.MaxBytes), "is too large: at most 1048576 bytes"},
		"deep flow":         {"free: " + strings.Repeat("[", 50_000), "exceeded max depth"},
		"deep flow maps":    {"free: " + strings.Repeat("{a: ", 50_000), "exceeded max depth"},
		"deep block":        {"free:\n" + strings.Repeat("- ", 50_000) + "a\n", "exceeded max depth"},
		"deep question":     {strings.Repeat("? ", 50_000) + "a\n", "exceeded max depth"},
		"deep all the same": {"free: {a: " + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "}", "nested too deeply"},
		"billion laughs":    {laughs(), "is too large or nested too deeply"},
		"secret in broken":  {"secret: hush: hush\n", "a.yaml:1:1: is not valid YAML: mapping values are not allowed"},
		"secret as alias":   {"name: a\nsecret: *hush\n", "a.yaml:2:9: refers to an anchor"},
		"broken further on": {"name: a\nnested:\n  depth: 1: 2\n", "a.yaml:3:3: is not valid YAML"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s settings
			_, err := strictyaml.Decode("a.yaml", []byte(c.in), &s)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %.500v, want %q", err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), "hush") {
				t.Errorf("the error quotes the file: %v", err)
			}
		})
	}
}

// laughs is a document whose aliases multiply.
func laughs() string {
	var b strings.Builder
	b.WriteString("free:\n  a0: &a0 [a, b, c, d, e, f, g, h, i, j]\n")
	for i := range 9 {
		fmt.Fprintf(&b, "  a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i), 10), ", "))
	}
	return b.String()
}

func TestNothingToRead(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"", "# only a comment\n", "---\n", "\n\n"} {
		got := settings{Count: 3}
		if _, err := strictyaml.Decode("a.yaml", []byte(in), &got); err != nil || got.Count != 3 {
			t.Errorf("%q: %v, %v", in, got, err)
		}
	}
}

// FuzzDecode: no file makes the decoder panic, every problem has a message, and what
// was read without a problem is read the same again.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		"name: a\ncount: 1\nitems: {a: {size: 1}}\n", "a: &a [*a]\n", "? a\n: b\n", "--- \n...\n---\n", "free: {a: !!int 1, <<: {b: c}}\n",
		"list:\n- - - a\n", "name: |\n  x\n every: >-\n", "\t", "free: .inf\n", laughs(), "name: \"\\x00\"", "{", "- ", "&a", "*a", "<<: *a",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var first, second settings
		_, err := strictyaml.Decode("a.yaml", data, &first)
		var problems strictyaml.Problems
		if err != nil {
			if !errors.As(err, &problems) || len(problems) == 0 || problems[0].Message == "" {
				t.Fatalf("not a list of problems: %v", err)
			}
			return
		}
		if _, err := strictyaml.Decode("a.yaml", data, &second); err != nil || !reflect.DeepEqual(first, second) {
			t.Fatalf("read differently the second time: %v\n%+v\n%+v", err, first, second)
		}
	})
}
