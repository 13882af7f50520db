package safety_test

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestExplains: what is refused is said in words, by argument, and all at once.
func TestExplains(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		schema, args object
		want         string
	}{
		"limits":         {argument(object{"type": "string", "maxLength": 2, "pattern": "^b"}), object{"a": "äöü"}, `a: "äöü" does not match the pattern ^b; a: must have at most 2 characters, not 3`},
		"too short":      {argument(object{"minLength": 2}), object{"a": ""}, "a: must have at least 2 characters, not 0"},
		"bounds":         {argument(object{"exclusiveMinimum": 1, "exclusiveMaximum": 1}), object{"a": 1}, "a: must be more than 1, not 1; a: must be less than 1, not 1"},
		"large number":   {argument(object{"maximum": 10_000_000}), object{"a": 20_000_000}, "a: must be at most 10000000, not 20000000"},
		"exact number":   {argument(object{"maximum": 1 << 53}), object{"a": json.Number("9007199254740993")}, "a: must be at most 9007199254740992, not 9007199254740993"},
		"several types":  {argument(object{"type": []any{"integer", "boolean"}}), object{"a": "x"}, "a: must be an integer or a boolean, not a string"},
		"const":          {argument(object{"const": 5, "minimum": 9}), object{"a": 6}, "a: must be 5"},
		"enum":           {argument(object{"enum": []any{1_000_000, "x", true}}), object{"a": "y"}, "a: must be one of 1000000, x, true"},
		"any of":         {argument(object{"anyOf": []any{object{"type": "integer"}, object{"maxLength": 1, "pattern": "^b"}}}), object{"a": "xx"}, `a: must be an integer, not a string, or "xx" does not match the pattern ^b and must have at most 1 characters, not 2`},
		"one of, two":    {argument(object{"oneOf": []any{true, object{"type": "string"}}}), object{"a": "x"}, "a: fits 2 of the forms of which it may fit only one"},
		"one of, none":   {argument(object{"oneOf": []any{object{"const": 1}, object{"const": 2}}}), object{"a": "x"}, "a: must be 1, or must be 2"},
		"all of":         {argument(object{"allOf": []any{object{"minimum": 2}, object{"multipleOf": 5}}}), object{"a": 1}, "a: must be at least 2, not 1; a: must be a multiple of 5, not 1"},
		"not const":      {argument(object{"not": object{"const": "root"}}), object{"a": "root"}, "a: must not be root"},
		"not of list":    {argument(object{"not": object{"enum": []any{"a", "b"}}}), object{"a": "b"}, "a: must be none of a, b"},
		"not pattern":    {argument(object{"not": object{"pattern": "/"}}), object{"a": "b/c"}, "a: must not match the pattern /"},
		"not":            {argument(object{"not": object{"type": "string"}}), object{"a": "b"}, "a: is something that the schema does not allow"},
		"then":           {argument(object{"if": object{"type": "string"}, "then": object{"maxLength": 1}}), object{"a": "xy"}, "a: must have at most 1 characters, not 2"},
		"else":           {argument(object{"if": object{"type": "string"}, "else": object{"maximum": 1}}), object{"a": 2}, "a: must be at most 1, not 2"},
		"one is needed":  {object{"properties": object{"a": true, "b": true}, "anyOf": []any{object{"required": []any{"a"}}, object{"required": []any{"b"}}}}, nil, "args: a is required, or b is required"},
		"together":       {object{"properties": object{"a": true, "b": true}, "dependentRequired": object{"a": []any{"b"}}}, object{"a": 1}, "b: is required where a is given"},
		"also":           {object{"properties": object{"a": true, "b": true}, "dependentSchemas": object{"a": object{"properties": object{"b": object{"maximum": 1}}}}}, object{"a": 1, "b": 2}, "b: must be at most 1, not 2"},
		"too few":        {object{"properties": object{"a": true, "b": true}, "minProperties": 2}, object{"a": 1}, "args: must have at least 2 arguments, not 1"},
		"too many":       {object{"additionalProperties": true, "maxProperties": 1}, object{"a": 1, "b": 1}, "args: must have at most 1 arguments, not 2"},
		"others":         {object{"additionalProperties": object{"maximum": 1}}, object{"x": 2}, "x: must be at most 1, not 2"},
		"by pattern":     {object{"patternProperties": object{"^x": object{"maximum": 1}}, "additionalProperties": false}, object{"x1": 2, "y": 1}, "x1: must be at most 1, not 2; y: is not an argument here; there are none"},
		"names":          {object{"additionalProperties": true, "propertyNames": object{"maxLength": 1}}, object{"xx": 2}, "xx: is not a possible name of an argument"},
		"not said twice": {object{"required": []any{"a"}, "properties": object{"a": object{"type": "string"}}}, object{"a": nil}, "a: has no value"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := compile(t, c.schema).Check(c.args)
			if err == nil || err.Error() != c.want {
				t.Errorf("got  %v\nwant %v", err, c.want)
			}
		})
	}
}

// TestFormats: each format takes what it is a name for and refuses what it is not.
func TestFormats(t *testing.T) {
	t.Parallel()
	label := strings.Repeat("a", 63)
	for format, c := range map[string]struct{ good, bad []string }{
		"date":                  {[]string{"2024-02-29"}, []string{"2023-02-29", "2024-2-9", "24-02-29", "2024-02-29T00:00:00Z", ""}},
		"time":                  {[]string{"10:00:00Z", "10:00:00.5+02:00", "10:00:00z"}, []string{"10:00:00", "1:00:00Z", "24:00:00Z", "10:00Z", "10:00:00,5Z"}},
		"date-time":             {[]string{"2024-02-29T10:00:00Z", "2024-02-29t10:00:00.123-02:00"}, []string{"2024-02-29 10:00:00Z", "2024-02-29T10:00:00", "2024-02-30T10:00:00Z"}},
		"duration":              {[]string{"P1D", "PT36H", "P1Y2M3DT4H5M6S", "P2W"}, []string{"P", "PT", "P1DT", "1D", "P1H", "P1W2D", "P1M1Y", "-P1D"}},
		"period":                {[]string{"2024-02-29T10:00:00Z/P1D", "P1D/2024-02-29T10:00:00Z", "2024-02-29T10:00:00Z/2024-03-01T10:00:00Z"}, []string{"P1D/P1D", "P1D", "2024-02-29T10:00:00Z"}},
		"email":                 {[]string{"a@b", "a.b+c@example.org", "a@[10.0.0.1]", "a@[IPv6:::1]"}, []string{"a", "@b", "a@", ".a@b", "a..b@c", "a b@c", "a@b_c", "a@[x]", "a@[IPv6:10.0.0.1]", label + "aa@b", "a\"@b"}},
		"hostname":              {[]string{"a", "a-b.example.org", "example.org.", label + ".a"}, []string{"", "-a", "a-", "a..b", "a_b", "a b", label + "a", "ä.de", strings.Repeat(label+".", 4) + "a"}},
		"ipv4":                  {[]string{"10.0.0.1"}, []string{"10.0.0", "10.0.0.256", "010.0.0.1", "::1"}},
		"ipv6":                  {[]string{"::1", "fe80::1", "::ffff:10.0.0.1"}, []string{"10.0.0.1", "fe80::1%eth0", ":::"}},
		"uri":                   {[]string{"https://example.org/a?b#c", "urn:a:b", "http://[::1]/"}, []string{"/a", "http://a b/", "http://::1/", "http://a/<b>", "%zz:"}},
		"uri-reference":         {[]string{"/a", "a?b", "https://example.org"}, []string{`a\b`, "a b", "http://[:"}},
		"iri":                   {[]string{"https://example.org/ä"}, []string{"ä"}},
		"iri-reference":         {[]string{"/ä"}, []string{`ä\`}},
		"uuid":                  {[]string{"123e4567-e89b-12d3-A456-426614174000"}, []string{"123e4567e89b12d3a456426614174000", "123e4567-e89b-12d3-a456-42661417400g"}},
		"json-pointer":          {[]string{"", "/a/~0~1b//"}, []string{"a", "/~", "/~2"}},
		"relative-json-pointer": {[]string{"0", "1/a", "2#"}, []string{"", "01", "-1", "1a", "1#/a"}},
		"regex":                 {[]string{"^a+$", ""}, []string{"(", "(?=a)"}},
		"semver":                {[]string{"1.2.3", "0.0.0-rc.1+build.5", "1.2.3--"}, []string{"1.2", "v1.2.3", "01.2.3", "1.2.3-01", "1.2.3-", "1.2.3+"}},
		"multiline":             {[]string{"a\nb", ""}, []string{"\x00"}},
	} {
		s := compile(t, argument(object{"format": format}))
		for _, text := range c.good {
			if _, err := s.Check(object{"a": text}); err != nil {
				t.Errorf("%s: %q was refused: %v", format, text, err)
			}
		}
		for _, text := range c.bad {
			if _, err := s.Check(object{"a": text}); err == nil {
				t.Errorf("%s: %q was taken", format, text)
			}
		}
		if _, err := s.Check(object{"a": 5}); err != nil {
			t.Errorf("%s: a format says nothing about numbers: %v", format, err)
		}
	}
}

// TestFormatIsNamed: a refusal quotes what was given and names the format.
func TestFormatIsNamed(t *testing.T) {
	t.Parallel()
	s := compile(t, argument(object{"type": "string", "format": "date", "minLength": 12}))
	_, err := s.Check(object{"a": "tomorrow"})
	if want := `a: must have at least 12 characters, not 8; a: "tomorrow" is not a valid date`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	_, err = s.Check(object{"a": 5})
	if want := "a: must be a string, not a number"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestMultiples: they are decimal, as people write them.
func TestMultiples(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		step, value any
		want        string
	}{
		{0.01, "0.07", ""},
		{0.01, 0.07, ""},
		{0.1, 0.3, ""},
		{2, json.Number("9007199254740994"), ""},
		{2, json.Number("9007199254740993"), "a: must be a multiple of 2, not 9007199254740993"},
		{0.5, 0.7, "a: must be a multiple of 0.5, not 0.7"},
		{5, 0, ""},
		{5, -10, ""},
	} {
		s := compile(t, argument(object{"type": "number", "multipleOf": c.step}))
		if _, err := s.Check(object{"a": c.value}); (err == nil) != (c.want == "") || err != nil && err.Error() != c.want {
			t.Errorf("%v by %v: got %v, want %q", c.value, c.step, err, c.want)
		}
	}
	if _, err := compile(t, argument(object{"multipleOf": 5})).Check(object{"a": "x"}); err != nil {
		t.Errorf("text: %v", err)
	}
}
