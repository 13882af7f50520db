package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/threadmill/threadmill/bot/web/api"
)

func TestArguments(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		words []string
		dash  int
		stdin string
		args  map[string]any
		text  string
	}{
		{name: "nothing", dash: -1},
		{name: "text", words: []string{"fix", "it"}, dash: -1, text: "fix it"},
		{name: "arguments", words: []string{"unit=nginx", "lines=5"}, dash: -1, args: map[string]any{"unit": "nginx", "lines": "5"}},
		{name: "both", words: []string{"n=1", "set", "x=2"}, dash: -1, args: map[string]any{"n": "1"}, text: "set x=2"},
		{name: "empty value", words: []string{"n="}, dash: -1, args: map[string]any{"n": ""}},
		{name: "value with equals signs", words: []string{"q=a=b"}, dash: -1, args: map[string]any{"q": "a=b"}},
		{name: "value with lines", words: []string{"q=a\nb"}, dash: -1, args: map[string]any{"q": "a\nb"}},
		{name: "a URL is no argument", words: []string{"https://x/?a=b"}, dash: -1, text: "https://x/?a=b"},
		{name: "after a dash", words: []string{"a=b", "c=d"}, dash: 1, args: map[string]any{"a": "b"}, text: "c=d"},
		{name: "dash first", words: []string{"a=b"}, dash: 0, text: "a=b"},
		{name: "standard input", words: []string{"a=b", "-"}, dash: -1, stdin: "one\ntwo\n", args: map[string]any{"a": "b"}, text: "one\ntwo\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a := &app{streams: streams{in: strings.NewReader(c.stdin)}}
			args, text, err := a.arguments(c.words, c.dash)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.args, args); diff != "" {
				t.Errorf("arguments (-want +got):\n%s", diff)
			}
			if text != c.text {
				t.Errorf("text %q, want %q", text, c.text)
			}
		})
	}
}

func TestArgumentsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		words []string
		stdin string
	}{
		"twice":    {words: []string{"a=1", "a=2"}},
		"too long": {words: []string{"-"}, stdin: strings.Repeat("x", maxText+1)},
	} {
		a := &app{streams: streams{in: strings.NewReader(c.stdin)}}
		_, _, err := a.arguments(c.words, -1)
		if _, ok := errors.AsType[usageError](err); !ok {
			t.Errorf("%s: error %v, want a usage error", name, err)
		}
	}
}

func TestRequest(t *testing.T) {
	t.Parallel()
	a := &app{}
	got, err := a.request(runFlags{agent: "demo", task: "T", key: "K", resume: "#42", fork: true}, []string{"demo", "say", "hi"}, -1)
	if err != nil {
		t.Fatal(err)
	}
	want := api.CreateRequest{
		Capability: "demo", Agent: "demo", TaskID: "T", IdempotencyKey: "K",
		ParentID: "42", Resume: true, Fork: true, Once: true, Text: "say hi",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Only a run that is followed ends with its turn: nobody waits for the others.
func TestOnceUnlessKeptOrDetached(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		flags runFlags
		once  bool
	}{{runFlags{}, true}, {runFlags{keep: true}, false}, {runFlags{detach: true}, false}} {
		got, err := (&app{}).request(c.flags, []string{"demo"}, -1)
		if err != nil || got.Once != c.once {
			t.Errorf("%+v: once is %v (%v), want %v", c.flags, got.Once, err, c.once)
		}
	}
}

func TestReference(t *testing.T) {
	t.Parallel()
	id := "0192f0c4-7d6e-7c3a-9a55-0123456789ab"
	for arg, want := range map[string]string{"42": "42", "#42": "42", id: id} {
		if got, err := reference(arg); err != nil || got != want {
			t.Errorf("%q is %q (%v), want %q", arg, got, err, want)
		}
	}
	for _, arg := range []string{"", "0", "-1", "##1", "4.2", "x", "../1", "1/cancel", id + "0", strings.Repeat("9", 40)} {
		if got, err := reference(arg); err == nil {
			t.Errorf("%q is taken as %q", arg, got)
		}
	}
}
