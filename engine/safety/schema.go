package safety

import (
	"encoding/json"
	"maps"
	"math/big"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
)

// Schema is what the arguments of a capability have to look like: a JSON Schema of an
// object whose properties are plain values. Arguments that it does not declare are
// refused unless it says additionalProperties itself. A keyword or a format that is
// not supported is refused when the schema is compiled, never left out silently.
type Schema struct {
	compiled *jsonschema.Resolved // decides; what is said about a refusal is ours
	props    map[string]property
}

// property is what is known about one argument.
type property struct {
	types     []string // of string, integer, number, boolean; empty: any of them
	pattern   string
	negative  bool // the schema has a minimum below zero
	multiline bool
	required  bool
	fallback  any // its default; nil: none

	formats []string   // what the library
	steps   []*big.Rat // does not check
}

// Compile checks a schema and prepares it. An absent schema declares no arguments.
func Compile(schema map[string]any) (*Schema, error) {
	doc, err := normalise(schema)
	if err != nil {
		return nil, refuse("args_schema", "cannot be read: %v", err)
	}
	if err := checkRoot(doc); err != nil {
		return nil, err
	}
	root, err := readDocument(doc)
	if err != nil {
		return nil, err
	}
	s := &Schema{props: map[string]property{}}
	if err := s.learn(root); err != nil {
		return nil, err
	}
	s.compiled, err = root.Resolve(nil)
	if err != nil {
		return nil, refuse("args_schema", "cannot be used: %v", err)
	}
	return s, nil
}

// normalise turns whatever YAML or JSON made of the schema into one form, and closes
// it against undeclared arguments.
func normalise(schema map[string]any) (map[string]any, error) {
	b, err := json.Marshal(schema)
	if err != nil {
		return nil, err
	}
	v, err := decodeExact(b)
	if err != nil {
		return nil, err
	}
	doc, _ := v.(map[string]any)
	if doc == nil {
		doc = map[string]any{}
	}
	_, says := doc["additionalProperties"]
	_, patterns := doc["patternProperties"]
	if !says && !patterns {
		doc["additionalProperties"] = false
	}
	return doc, nil
}

func checkRoot(doc map[string]any) error {
	if t, ok := doc["type"]; ok && t != "object" {
		return refuse("args_schema", "type must be object, since arguments have names")
	}
	doc["type"] = "object"
	return nil
}

// learn notes the properties and refuses those that could not be plain values.
func (s *Schema) learn(root *jsonschema.Schema) error {
	var es Errors
	for _, name := range slices.Sorted(maps.Keys(root.Properties)) {
		p := property{required: slices.Contains(root.Required, name)}
		if err := p.learn("args_schema.properties."+name, name, root.Properties[name]); err != nil {
			es = append(es, err)
			continue
		}
		s.props[name] = p
	}
	for _, name := range root.Required {
		if _, ok := root.Properties[name]; !ok {
			es = append(es, refuse("args_schema.required", "%s is not among the properties", shown(name)))
		}
	}
	return es.orNil()
}

func (p *property) learn(field, name string, schema *jsonschema.Schema) *Error {
	if !isArgName(name) {
		return refuse(field, "is no name for an argument (letters, digits, _ and -, a letter first, at most 64)")
	}
	preset := p.note(schema)
	for _, t := range p.types {
		if t == "object" || t == "array" || t == "null" {
			return refuse(field, "type %s is not possible: an argument is a string, an integer, a number or a boolean", t)
		}
	}
	return p.learnDefault(field+".default", preset, schema)
}

// note takes from a schema, and from the parts of it that always apply, what is asked
// for later, and returns the default. What the library checks in floats only, it takes
// away from it.
func (p *property) note(schema *jsonschema.Schema) (preset json.RawMessage) {
	if p.types == nil {
		p.types = typesOf(schema)
	}
	if p.pattern == "" {
		p.pattern = schema.Pattern
	}
	p.negative = p.negative || schema.Minimum != nil && *schema.Minimum < 0
	p.multiline = p.multiline || schema.Format == multilineFormat || schema.Extra["x-multiline"] == true
	if schema.Format != "" && schema.Format != multilineFormat {
		p.formats = append(p.formats, schema.Format)
	}
	if schema.MultipleOf != nil {
		p.steps = append(p.steps, decimal(*schema.MultipleOf))
		schema.MultipleOf = nil
	}
	preset = schema.Default
	for _, part := range schema.AllOf {
		if inner := p.note(part); preset == nil {
			preset = inner
		}
	}
	return preset
}

// learnDefault notes a property's default and refuses one that its own schema refuses.
func (p *property) learnDefault(field string, preset json.RawMessage, schema *jsonschema.Schema) *Error {
	if preset == nil {
		return nil
	}
	raw, err := decodeExact(preset)
	if err != nil {
		return refuse(field, "cannot be read: %v", err)
	}
	value, problem := p.plain(field, raw)
	if problem != nil {
		return problem
	}
	if es := append(new(Schema).explain(field, schema, value), p.unmet(field, value)...); len(es) > 0 {
		return es[0]
	}
	p.fallback = value
	return nil
}

func typesOf(schema *jsonschema.Schema) []string {
	if schema.Type != "" {
		return []string{schema.Type}
	}
	return schema.Types
}

// Names returns the declared arguments in alphabetical order.
func (s *Schema) Names() []string { return slices.Sorted(maps.Keys(s.props)) }

// Declares reports whether the schema has an argument of that name.
func (s *Schema) Declares(name string) bool {
	_, ok := s.props[name]
	return ok
}
