package safety

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Schema is what the arguments of a capability have to look like: a JSON Schema of an
// object whose properties are plain values. Arguments that it does not declare are
// refused unless it says additionalProperties itself.
type Schema struct {
	compiled *jsonschema.Schema
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
}

var argName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{0,63}$`)

// schemaURL is the name under which a schema is compiled; nothing is ever read from it.
const schemaURL = "threadmill:///args_schema"

// nowhere is the loader of schemas: a $ref may point into its own document only.
type nowhere struct{}

// Load refuses.
func (nowhere) Load(string) (any, error) {
	return nil, errors.New("a schema may refer to nothing outside of itself")
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
	c := jsonschema.NewCompiler()
	c.UseLoader(nowhere{})
	c.AssertFormat()
	if err := c.AddResource(schemaURL, doc); err != nil {
		return nil, compileError(err)
	}
	compiled, err := c.Compile(schemaURL)
	if err != nil {
		return nil, compileError(err)
	}
	s := &Schema{compiled: compiled, props: map[string]property{}}
	if err := s.learn(doc); err != nil {
		return nil, err
	}
	return s, nil
}

// normalise turns whatever YAML or JSON made of the schema into what the compiler
// takes, and closes it against undeclared arguments.
func normalise(schema map[string]any) (map[string]any, error) {
	b, err := json.Marshal(schema)
	if err != nil {
		return nil, err
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
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

func compileError(err error) error {
	var invalid *jsonschema.SchemaValidationError
	if !errors.As(err, &invalid) {
		return refuse("args_schema", "%v", err)
	}
	var ve *jsonschema.ValidationError
	if !errors.As(invalid.Err, &ve) {
		return refuse("args_schema", "%v", invalid.Err)
	}
	var es Errors
	for _, leaf := range leaves(ve) {
		where := strings.Join(append([]string{"args_schema"}, leaf.InstanceLocation...), ".")
		es = append(es, refuse(where, "%s", describe(leaf)))
	}
	return es.orNil()
}

// learn notes the properties and refuses those that could not be plain values.
func (s *Schema) learn(doc map[string]any) error {
	raw, _ := doc["properties"].(map[string]any)
	var es Errors
	for _, name := range slices.Sorted(maps.Keys(s.compiled.Properties)) {
		p, err := s.property(name, raw[name])
		if err != nil {
			es = append(es, err)
			continue
		}
		s.props[name] = p
	}
	for _, name := range s.compiled.Required {
		if _, ok := s.compiled.Properties[name]; !ok {
			es = append(es, refuse("args_schema.required", "%s is not among the properties", shown(name)))
		}
	}
	return es.orNil()
}

func (s *Schema) property(name string, raw any) (property, *Error) {
	field := "args_schema.properties." + name
	if !argName.MatchString(name) {
		return property{}, refuse(field, "is no name for an argument (letters, digits, _ and -, a letter first, at most 64)")
	}
	sch := target(s.compiled.Properties[name])
	p := property{required: slices.Contains(s.compiled.Required, name), multiline: isMultiline(raw)}
	if sch.Types != nil {
		p.types = sch.Types.ToStrings()
	}
	for _, t := range p.types {
		if t == "object" || t == "array" || t == "null" {
			return p, refuse(field, "type %s is not possible: an argument is a string, an integer, a number or a boolean", t)
		}
	}
	if sch.Pattern != nil {
		p.pattern = sch.Pattern.String()
	}
	p.negative = sch.Minimum != nil && sch.Minimum.Sign() < 0
	problem := s.learnDefault(name, &p)
	return p, problem
}

// learnDefault notes a property's default and refuses one that its own schema refuses.
func (s *Schema) learnDefault(name string, p *property) *Error {
	sch := target(s.compiled.Properties[name])
	if sch.Default == nil {
		return nil
	}
	field := "args_schema.properties." + name + ".default"
	value, problem := p.plain(field, *sch.Default)
	if problem != nil {
		return problem
	}
	if err := s.compiled.Properties[name].Validate(value); err != nil {
		if ve, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
			return refuse(field, "%s", describe(leaves(ve)[0]))
		}
		return refuse(field, "%v", err)
	}
	p.fallback = value
	return nil
}

// target follows references to the schema that says what a value is.
func target(sch *jsonschema.Schema) *jsonschema.Schema {
	for range 16 { // longer chains exist only as cycles
		if sch.Ref == nil || sch.Types != nil {
			break
		}
		sch = sch.Ref
	}
	return sch
}

func isMultiline(raw any) bool {
	m, _ := raw.(map[string]any)
	return m["format"] == "multiline" || m["x-multiline"] == true
}

// Names returns the declared arguments in alphabetical order.
func (s *Schema) Names() []string { return slices.Sorted(maps.Keys(s.props)) }

// Declares reports whether the schema has an argument of that name.
func (s *Schema) Declares(name string) bool {
	_, ok := s.props[name]
	return ok
}
