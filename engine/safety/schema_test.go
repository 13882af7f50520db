package safety_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/threadmill/threadmill/engine/safety"
)

type object = map[string]any

// unitSchema is the schema of the design's example.
func unitSchema() object {
	return object{
		"type": "object", "required": []any{"unit"}, "additionalProperties": false,
		"properties": object{
			"unit":    object{"type": "string", "pattern": "^[a-z0-9@.-]+$"},
			"lines":   object{"type": "integer", "default": 100, "maximum": 1000},
			"ratio":   object{"type": "number"},
			"reverse": object{"type": "boolean"},
			"note":    object{"type": "string", "x-multiline": true},
			"level":   object{"enum": []any{"info", "warn"}},
		},
	}
}

func compile(tb testing.TB, schema object) *safety.Schema {
	tb.Helper()
	s, err := safety.Compile(schema)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func TestCheckResolves(t *testing.T) {
	t.Parallel()
	s := compile(t, unitSchema())
	for name, c := range map[string]struct{ args, want object }{
		"default":             {object{"unit": "nginx"}, object{"unit": "nginx", "lines": int64(100)}},
		"text from chat":      {object{"unit": "5", "lines": "7", "ratio": "0.5", "reverse": "true"}, object{"unit": "5", "lines": int64(7), "ratio": 0.5, "reverse": true}},
		"whole number":        {object{"unit": "a", "lines": json.Number("7")}, object{"unit": "a", "lines": int64(7)}},
		"whole float":         {object{"unit": "a", "lines": 7.0}, object{"unit": "a", "lines": int64(7)}},
		"int":                 {object{"unit": "a", "lines": 7}, object{"unit": "a", "lines": int64(7)}},
		"lines where allowed": {object{"unit": "a", "lines": 1, "note": "a\n\tb"}, object{"unit": "a", "lines": int64(1), "note": "a\n\tb"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := s.Check(c.args)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCheckRefuses(t *testing.T) {
	t.Parallel()
	s := compile(t, unitSchema())
	for name, c := range map[string]struct {
		args object
		want string
	}{
		"missing":         {object{}, "unit: is required"},
		"shell":           {object{"unit": "a;$(id)"}, `unit: "a;$(id)" does not match the pattern`},
		"newline":         {object{"unit": "a\nb"}, "unit: holds the control character newline"},
		"NUL":             {object{"unit": "a\x00b"}, "unit: holds the control character NUL"},
		"DEL":             {object{"unit": "a\x7fb"}, `unit: holds the control character \X7F`},
		"C1":              {object{"unit": "a\u0085b"}, `unit: holds the control character \U0085`},
		"line separator":  {object{"unit": "a\u2028b"}, `unit: holds the control character \U2028`},
		"escape in lines": {object{"unit": "a", "note": "\x1b[2J"}, "note: holds the control character escape"},
		"bad UTF-8":       {object{"unit": "\xff"}, "unit: is not valid UTF-8"},
		"object":          {object{"unit": object{"a": 1}}, "unit: must be a plain value"},
		"array":           {object{"unit": []any{"a"}}, "unit: must be a plain value"},
		"null":            {object{"unit": nil}, "unit: has no value"},
		"number for text": {object{"unit": 5}, "unit: must be a string, not a number"},
		"text for number": {object{"unit": "a", "lines": "many"}, "lines: must be an integer, not a string"},
		"fraction":        {object{"unit": "a", "lines": 1.5}, "lines: must be an integer, not a number"},
		"too much":        {object{"unit": "a", "lines": 5000}, "lines: must be at most 1000, not 5000"},
		"beyond exact":    {object{"unit": "a", "lines": json.Number("99999999999999999999")}, "lines: is not a number that can be taken exactly"},
		"not in the list": {object{"unit": "a", "level": "loud"}, "level: must be one of info, warn"},
		"unknown":         {object{"unit": "a", "unti": "b"}, "unti: is not an argument here; there are: level, lines, note, ratio, reverse, unit"},
		"hostile name":    {object{"unit": "a", "x\ny": "b"}, `"x\ny": is not an argument here`},
		"too long":        {object{"unit": strings.Repeat("a", 40<<10)}, "unit: is too long"},
		"all at once":     {object{"lines": 5000, "level": "loud"}, "level: must be one of info, warn; lines: must be at most 1000, not 5000; unit: is required"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := s.Check(c.args)
			var e *safety.Error
			if !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// TestSchemaIsClosed: arguments nobody declared would be ignored silently.
func TestSchemaIsClosed(t *testing.T) {
	t.Parallel()
	for _, schema := range []object{nil, {}, {"properties": object{"a": object{}}}} {
		if _, err := compile(t, schema).Check(object{"b": "c"}); err == nil {
			t.Errorf("%v took an undeclared argument", schema)
		}
	}
}

func TestCompileRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		schema object
		want   string
	}{
		"no object":     {object{"type": "string"}, "type must be object"},
		"list argument": {object{"properties": object{"a": object{"type": "array"}}}, "type array is not possible"},
		"null argument": {object{"properties": object{"a": object{"type": []any{"string", "null"}}}}, "type null is not possible"},
		"bad type":      {object{"properties": object{"a": object{"type": "text"}}}, "args_schema"},
		"bad pattern":   {object{"properties": object{"a": object{"pattern": "("}}}, "args_schema"},
		"bad name":      {object{"properties": object{"a b": object{}}}, "is no name for an argument"},
		"bad default":   {object{"properties": object{"a": object{"type": "integer", "maximum": 1, "default": 2}}}, "must be at most 1, not 2"},
		"required":      {object{"required": []any{"a"}}, `"a" is not among the properties`},
		"file":          {object{"properties": object{"a": object{"$ref": "file:///etc/passwd"}}}, "nothing outside of itself"},
		"web":           {object{"properties": object{"a": object{"$ref": "http://127.0.0.1:1/x"}}}, "nothing outside of itself"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := safety.Compile(c.schema)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// TestReference: a schema may be written with definitions of its own.
func TestReference(t *testing.T) {
	t.Parallel()
	s := compile(t, object{
		"$defs":      object{"count": object{"type": "integer", "default": 3}},
		"properties": object{"n": object{"$ref": "#/$defs/count"}},
	})
	got, err := s.Check(object{})
	if err != nil || got["n"] != int64(3) {
		t.Errorf("got %v, %v", got, err)
	}
}
