package safety_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/threadmill/threadmill/engine/safety"
)

// argument is a schema of one argument called a.
func argument(schema any) object { return object{"properties": object{"a": schema}} }

// TestCompileRefusesWhatWouldChangeNothing: a keyword that is misspelt, empty or in a
// place where it has no effect would look like a limit and be none.
func TestCompileRefusesWhatWouldChangeNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		schema object
		want   string
	}{
		"unknown":            {argument(object{"maxLenght": 5}), "args_schema.properties.a.maxLenght: is not a keyword that is supported here"},
		"other capitals":     {argument(object{"Maximum": 5}), "args_schema.properties.a.Maximum: is not a keyword"},
		"unknown at root":    {object{"require": []any{"a"}}, "args_schema.require: is not a keyword"},
		"unknown, not used":  {object{"$defs": object{"x": object{"maxmum": 1}}}, "args_schema.$defs.x.maxmum: is not a keyword"},
		"unknown, within":    {argument(object{"anyOf": []any{object{}, object{"minmum": 1}}}), "args_schema.properties.a.anyOf[1].minmum: is not a keyword"},
		"for lists":          {argument(object{"items": object{}}), "a.items: is not a keyword"},
		"of older drafts":    {object{"dependencies": object{}}, "args_schema.dependencies: is not a keyword"},
		"empty":              {argument(object{"maximum": nil}), "a.maximum: must be a number"},
		"empty pattern":      {argument(object{"pattern": nil}), "a.pattern: must be text"},
		"empty schema":       {argument(nil), "args_schema.properties.a: must be a schema"},
		"empty properties":   {object{"properties": nil}, "args_schema.properties: must be a mapping"},
		"empty enum":         {argument(object{"enum": nil}), "a.enum: must be a list"},
		"empty const":        {argument(object{"const": nil}), "a.const: must be a value"},
		"empty default":      {argument(object{"default": nil}), "a.default: has no value"},
		"text for a number":  {argument(object{"maximum": "5"}), "a.maximum: must be a number"},
		"half a length":      {argument(object{"maxLength": 1.5}), "a.maxLength: must be a whole number"},
		"negative length":    {argument(object{"minLength": -1}), "a.minLength: must be a whole number"},
		"moving limit":       {argument(object{"maximum": 1<<53 + 1}), "a.maximum: must be a number, and no whole number beyond 2^53"},
		"moving value":       {argument(object{"enum": []any{1<<53 + 1}}), "a.enum: must be a list of values, and no whole number"},
		"endless number":     {argument(object{"minimum": json.Number("1e999")}), "a.minimum: must be a number"},
		"multiple of 0":      {argument(object{"multipleOf": 0}), "a.multipleOf: must be a number above 0"},
		"type":               {argument(object{"type": "text"}), "args_schema.properties.a.type: must be string, integer"},
		"no types":           {argument(object{"type": []any{}}), "a.type: must be string, integer"},
		"required":           {object{"required": "a"}, "args_schema.required: must be a list of names"},
		"no schemas":         {argument(object{"anyOf": []any{}}), "a.anyOf: must be a list of schemas"},
		"dependent":          {object{"dependentRequired": object{"a": "b"}}, "args_schema.dependentRequired: must be a mapping of names"},
		"bad name pattern":   {object{"patternProperties": object{"(": true}}, `args_schema.patternProperties: "(" is not a pattern`},
		"bad pattern":        {argument(object{"pattern": "(?=a)"}), "a.pattern: is not a pattern that can be used"},
		"unknown format":     {argument(object{"format": "dat"}), "a.format: must be one of date, date-time"},
		"loose format":       {argument(object{"anyOf": []any{object{"format": "date"}}}), "a.anyOf[0].format: is possible only in the schema of an argument itself"},
		"format of others":   {object{"additionalProperties": object{"format": "date"}}, "args_schema.additionalProperties.format: is possible only"},
		"loose by reference": {object{"$defs": object{"d": object{"format": "date"}}, "properties": object{"a": object{"not": object{"$ref": "#/$defs/d"}}}}, "args_schema.$defs.d.format: is possible only"},
		"loose multiple":     {argument(object{"not": object{"multipleOf": 2}}), "a.not.multipleOf: is possible only"},
		"unknown version":    {object{"$schema": "http://json-schema.org/draft-04/schema#"}, "args_schema.$schema: must be that of draft"},
		"id":                 {object{"$id": "http://example.org/"}, "args_schema.$id: is not a keyword"},
		"all at once":        {argument(object{"maxLenght": 5, "type": "text"}), "a.maxLenght: is not a keyword that is supported here, so it would change nothing; args_schema.properties.a.type: must be"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := safety.Compile(c.schema)
			var e *safety.Error
			if !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// TestReferences: a reference leads to a place in the schema, and to an end.
func TestReferences(t *testing.T) {
	t.Parallel()
	deep := object{"l0": object{"type": "string"}}
	for i, name := range []string{"l1", "l2", "l3", "l4", "l5"} {
		before := object{"$ref": "#/$defs/l" + string(rune('0'+i))}
		deep[name] = object{"allOf": []any{before, before, before, before, before, before, before, before, before}}
	}
	for name, c := range map[string]struct {
		schema object
		want   string
	}{
		"to itself":     {argument(object{"$ref": "#/properties/a"}), `"#/properties/a" leads back to itself`},
		"to the whole":  {argument(object{"$ref": "#"}), `"#" leads back to itself`},
		"in a circle":   {object{"$ref": "#/$defs/a", "$defs": object{"a": object{"not": object{"$ref": "#/$defs/b"}}, "b": object{"$ref": "#/$defs/a"}}}, "leads back to itself"},
		"otherwise":     {argument(object{"anyOf": []any{object{"$ref": "#/properties/%61"}}}), "leads back to itself"},
		"nowhere":       {argument(object{"$ref": "#/$defs/none"}), `args_schema.properties.a.$ref: "#/$defs/none" leads nowhere`},
		"past the end":  {argument(object{"allOf": []any{true}, "$ref": "#/properties/a/allOf/1"}), "leads nowhere"},
		"an anchor":     {argument(object{"$ref": "#name"}), "leads nowhere"},
		"no schema":     {argument(object{"title": "x", "$ref": "#/properties/a/title"}), "args_schema.properties.a.title: must be a schema"},
		"a number":      {argument(object{"$ref": 5}), "a.$ref: must be a place in this schema"},
		"relative":      {argument(object{"$ref": "other.json"}), "nothing outside of itself"},
		"far too many":  {object{"$defs": deep, "properties": object{"a": object{"$ref": "#/$defs/l5"}}}, "args_schema: is too large"},
		"found by many": {object{"$defs": object{"d": object{"maxmum": 1}}, "properties": object{"a": object{"$ref": "#/$defs/d"}, "b": object{"$ref": "#/$defs/d"}}}, "args_schema.$defs.d.maxmum"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := safety.Compile(c.schema)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if name == "found by many" && strings.Count(err.Error(), "maxmum") != 1 {
				t.Errorf("one problem was reported more than once: %v", err)
			}
		})
	}
}

// TestReferenceBesideKeywords: what stands beside a reference counts as well.
func TestReferenceBesideKeywords(t *testing.T) {
	t.Parallel()
	s := compile(t, object{
		"$schema":     "http://json-schema.org/draft-07/schema#",
		"definitions": object{"a/b ~": object{"type": "integer", "minimum": -9, "format": "date"}},
		"properties":  object{"a": object{"$ref": "#/definitions/a~1b%20~0", "maximum": 5, "default": 3}},
	})
	for arg, want := range map[any]string{"4": "", "-4": "", "6": "must be at most 5, not 6", "-10": "must be at least -9, not -10", "x": "must be an integer, not a string"} {
		if _, err := s.Check(object{"a": arg}); (err == nil) != (want == "") || err != nil && err.Error() != "a: "+want {
			t.Errorf("%v: got %v, want %q", arg, err, want)
		}
	}
	if got, err := s.Check(nil); err != nil || got["a"] != int64(3) {
		t.Errorf("default: got %v, %v", got, err)
	}
	if argv, err := safety.Tokens([]string{"p", "{{a}}"}, object{"a": int64(-4)}, s); err != nil || argv[1] != "-4" {
		t.Errorf("a negative number, which the schema allows: %q, %v", argv, err)
	}
}

// FuzzCompile: no schema makes the compiler panic or run for ever, and one that it
// takes can be used.
func FuzzCompile(f *testing.F) {
	for _, s := range []string{
		`{"type":"object","required":["a"],"properties":{"a":{"type":"string","pattern":"^x","format":"date"}}}`,
		`{"$defs":{"a":{"$ref":"#/$defs/a"}},"properties":{"a":{"$ref":"#/$defs/a"}}}`,
		`{"properties":{"a":{"anyOf":[{"const":1},{"not":{"enum":[2,null]}}],"multipleOf":0.01}},"minProperties":1}`,
		`{"patternProperties":{"^x":{"exclusiveMinimum":1}},"additionalProperties":{"type":["string","number"]},"propertyNames":{"maxLength":3}}`,
		`{"if":{"required":["a"]},"then":{"dependentRequired":{"a":["b"]}},"else":false,"oneOf":[true,{}]}`,
		`{"properties":{"a":true,"b":false},"dependentSchemas":{"a":{"maxProperties":1}}}`,
	} {
		f.Add([]byte(s), "x")
	}
	f.Fuzz(func(t *testing.T, data []byte, arg string) {
		var schema object
		if json.Unmarshal(data, &schema) != nil {
			return
		}
		s, err := safety.Compile(schema)
		if err != nil {
			if err.Error() == "" || s != nil {
				t.Fatalf("refused without a word, or not at all: %v, %v", s, err)
			}
			return
		}
		defaults, err := s.Check(nil)
		if err == nil {
			if _, err := s.Check(defaults); err != nil {
				t.Fatalf("%v was taken and then refused: %v", defaults, err)
			}
		}
		for _, name := range append(s.Names(), "x") {
			if _, err := s.Check(object{name: arg}); err != nil && err.Error() == "" {
				t.Fatal("refused without a word")
			}
		}
	})
}
