package safety

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/big"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// maxSchemas bounds a schema whose references are written out.
const maxSchemas = 10_000

// place is where a schema stands in the document.
type place int

const (
	atRoot     place = iota // the schema of all arguments
	atArgument              // that of one argument, or a part of it that always applies
	elsewhere               // what applies only sometimes, or not to a declared argument
)

// document reads a schema strictly and writes out its references. What comes out is a
// tree: it can neither be endless nor reach outside of itself, and every part of it
// stands alone. The library checks little of that, and leaves out silently what it
// does not know.
type document struct {
	raw   map[string]any
	open  []string // the references that are being followed
	size  int      // how many schemas there are
	found Errors
}

// readDocument returns the schema in the form in which the library takes it.
func readDocument(raw map[string]any) (*jsonschema.Schema, error) {
	d := &document{raw: raw}
	tree := d.schema("args_schema", raw, atRoot)
	if err := d.found.orNil(); err != nil {
		return nil, err
	}
	b, err := json.Marshal(tree)
	if err != nil {
		return nil, refuse("args_schema", "cannot be read: %v", err)
	}
	var schema jsonschema.Schema
	if err := json.Unmarshal(b, &schema); err != nil {
		return nil, refuse("args_schema", "cannot be read: %v", err)
	}
	return &schema, nil
}

func (d *document) wrong(at, format string, args ...any) {
	d.found = append(d.found, refuse(at, format, args...))
}

// schema reads one schema and returns it with its references written out.
func (d *document) schema(at string, raw any, where place) any {
	if d.size++; d.size > maxSchemas {
		if d.size == maxSchemas+1 {
			d.wrong("args_schema", "is too large once its references are followed")
		}
		return true
	}
	if _, ok := raw.(bool); ok {
		return raw
	}
	m, ok := raw.(map[string]any)
	if !ok {
		d.wrong(at, "must be a schema: a mapping, true or false")
		return true
	}
	out := make(map[string]any, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if value := d.keyword(at+"."+name, name, m[name], where); value != nil {
			out[name] = value
		}
	}
	if ref, ok := m["$ref"]; ok {
		return merge(out, d.follow(at+".$ref", ref, where))
	}
	return out
}

// merge puts what a reference leads to beside what stands beside the reference.
func merge(out map[string]any, target any) any {
	if len(out) == 0 {
		return target
	}
	all, _ := out["allOf"].([]any)
	out["allOf"] = append(all, target)
	return out
}

// follow returns what a reference leads to. Problems in there are reported where it
// stands, which is the same place for everybody who refers to it.
func (d *document) follow(at string, raw any, where place) any {
	ref, _ := raw.(string)
	if !strings.HasPrefix(ref, "#") {
		d.wrong(at, "must be a place in this schema, such as #/$defs/name; a schema may refer to nothing outside of itself")
		return true
	}
	if slices.Contains(d.open, ref) {
		d.wrong(at, "%s leads back to itself", shown(ref))
		return true
	}
	target, path, ok := d.find(ref)
	if !ok {
		d.wrong(at, "%s leads nowhere", shown(ref))
		return true
	}
	d.open = append(d.open, ref)
	defer func() { d.open = d.open[:len(d.open)-1] }()
	return d.schema(path, target, where)
}

// find looks up a reference, which is a JSON Pointer after a #.
func (d *document) find(ref string) (target any, path string, ok bool) {
	pointer, err := url.PathUnescape(strings.TrimPrefix(ref, "#"))
	if err != nil || pointer != "" && pointer[0] != '/' {
		return nil, "", false
	}
	target, path = d.raw, "args_schema"
	for _, part := range strings.Split(pointer, "/")[1:] {
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		if target, path, ok = step(target, path, part); !ok {
			return nil, "", false
		}
	}
	return target, path, true
}

// step goes one step down from a value.
func step(from any, path, part string) (to any, at string, ok bool) {
	switch v := from.(type) {
	case map[string]any:
		to, ok = v[part]
		return to, path + "." + part, ok
	case []any:
		if i, err := strconv.ParseUint(part, 10, 31); err == nil && i < uint64(len(v)) {
			return v[i], fmt.Sprintf("%s[%d]", path, i), true
		}
	}
	return nil, "", false
}

// keyword reads one keyword and returns its value for the library, or nil where the
// library has no use for it.
func (d *document) keyword(at, name string, raw any, where place) any {
	switch name {
	case "properties":
		if where == atRoot {
			return d.schemas(at, raw, atArgument)
		}
		return d.schemas(at, raw, elsewhere)
	case "patternProperties":
		d.patterns(at, raw)
		return d.schemas(at, raw, elsewhere)
	case "dependentSchemas":
		return d.schemas(at, raw, elsewhere)
	case "$defs", "definitions":
		d.schemas(at, raw, atArgument) // what they are good for shows where they are used
		return nil
	case "allOf":
		if where == atArgument {
			return d.list(at, raw, atArgument)
		}
		return d.list(at, raw, elsewhere)
	case "anyOf", "oneOf":
		return d.list(at, raw, elsewhere)
	case "additionalProperties", "propertyNames", "not", "if", "then", "else":
		return d.schema(at, raw, elsewhere)
	}
	return d.value(at, name, raw, where)
}

// schemas reads schemas by name.
func (d *document) schemas(at string, raw any, where place) any {
	m, ok := raw.(map[string]any)
	if !ok {
		d.wrong(at, "must be a mapping of names to schemas")
		return nil
	}
	out := make(map[string]any, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		out[name] = d.schema(at+"."+name, m[name], where)
	}
	return out
}

func (d *document) list(at string, raw any, where place) any {
	l, ok := raw.([]any)
	if !ok || len(l) == 0 {
		d.wrong(at, "must be a list of schemas")
		return nil
	}
	out := make([]any, len(l))
	for i, v := range l {
		out[i] = d.schema(fmt.Sprintf("%s[%d]", at, i), v, where)
	}
	return out
}

// patterns checks the names of patternProperties.
func (d *document) patterns(at string, raw any) {
	m, _ := raw.(map[string]any)
	for _, pattern := range slices.Sorted(maps.Keys(m)) {
		if _, err := regexp.Compile(pattern); err != nil {
			d.wrong(at, "%s is not a pattern that can be used: %v", shown(pattern), err)
		}
	}
}

// value reads a keyword that holds no schema.
func (d *document) value(at, name string, raw any, where place) any {
	want := misuse(name, raw)
	if want == "" && where != atArgument && slices.Contains(ours(), name) {
		want = "is possible only in the schema of an argument itself, not in what applies only sometimes"
	}
	if want != "" {
		d.wrong(at, "%s", want)
		return nil
	}
	switch name {
	case "$schema", "$ref", "title", "description", "$comment", "examples", "deprecated", "readOnly", "writeOnly":
		return nil
	}
	return raw
}

// ours returns the keywords that are looked after here and not by the library, which
// could not tell where they apply.
func ours() []string { return []string{"format", "multipleOf", "x-multiline"} }

// misuse says what a keyword must be where raw is something else. The null that YAML
// makes of an empty value is never taken: a limit that is not there limits nothing.
func misuse(name string, raw any) string {
	switch name {
	case "$ref":
		return "" // follow says what is wrong with it
	case "$schema":
		return unless(isDialect(raw), "must be that of draft 2020-12, 2019-09 or 7, or left out")
	case "type":
		return unless(isType(raw), "must be string, integer, number or boolean, or a list of these")
	case "title", "description", "$comment":
		_, ok := raw.(string)
		return unless(ok, "must be text")
	case "deprecated", "readOnly", "writeOnly", "x-multiline":
		_, ok := raw.(bool)
		return unless(ok, "must be true or false")
	case "examples":
		_, ok := raw.([]any)
		return unless(ok, "must be a list")
	case "required":
		return unless(isNames(raw), "must be a list of names")
	case "dependentRequired":
		return unless(isNameLists(raw), "must be a mapping of names to lists of names")
	case "pattern":
		return misusedPattern(raw)
	case "format":
		name, _ := raw.(string)
		return unless(name == multilineFormat || formatCheck(name) != nil, "must be one of "+strings.Join(formatNames(), ", "))
	}
	return misuseOfValue(name, raw)
}

// misuseOfValue is misuse for the keywords that hold numbers or values of arguments.
func misuseOfValue(name string, raw any) string {
	const exactly = ", and no whole number beyond 2^53"
	n, _ := raw.(json.Number)
	switch name {
	case "minLength", "maxLength", "minProperties", "maxProperties":
		i, err := strconv.ParseUint(n.String(), 10, 31)
		return unless(err == nil && i <= math.MaxInt32, "must be a whole number, 0 or more")
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum":
		return unless(isExact(raw) && n != "", "must be a number"+exactly)
	case "multipleOf":
		f, err := n.Float64()
		return unless(err == nil && f > 0 && isExact(raw), "must be a number above 0"+exactly)
	case "enum":
		l, ok := raw.([]any)
		return unless(ok && !slices.ContainsFunc(l, func(v any) bool { return !isExact(v) }), "must be a list of values"+exactly)
	case "const":
		return unless(raw != nil && isExact(raw), "must be a value"+exactly)
	case "default":
		return unless(raw != nil, "has no value")
	}
	return "is not a keyword that is supported here, so it would change nothing"
}

func unless(ok bool, message string) string {
	if ok {
		return ""
	}
	return message
}

// isDialect reports whether the keywords that are taken mean in a version of JSON
// Schema what they mean here.
func isDialect(raw any) bool {
	s, _ := raw.(string)
	_, s, _ = strings.Cut(strings.TrimSuffix(s, "#"), "://")
	return slices.Contains([]string{
		"json-schema.org/draft/2020-12/schema", "json-schema.org/draft/2019-09/schema", "json-schema.org/draft-07/schema",
	}, s)
}

func isType(raw any) bool {
	if l, ok := raw.([]any); ok {
		return len(l) > 0 && !slices.ContainsFunc(l, func(v any) bool { _, text := v.(string); return !text || !isType(v) })
	}
	s, _ := raw.(string)
	return slices.Contains([]string{"string", "integer", "number", "boolean", "object", "array", "null"}, s)
}

func isNames(raw any) bool {
	l, ok := raw.([]any)
	return ok && !slices.ContainsFunc(l, func(v any) bool { _, text := v.(string); return !text })
}

func isNameLists(raw any) bool {
	m, ok := raw.(map[string]any)
	for _, v := range m {
		ok = ok && isNames(v)
	}
	return ok
}

func misusedPattern(raw any) string {
	pattern, ok := raw.(string)
	if !ok {
		return "must be text"
	}
	if _, err := regexp.Compile(pattern); err != nil {
		return "is not a pattern that can be used: " + err.Error()
	}
	return ""
}

// isExact reports whether a value stays the same in the library, which holds numbers
// as floats: a limit or a value that moves would let something else pass.
func isExact(raw any) bool {
	n, ok := raw.(json.Number)
	if !ok {
		return true
	}
	f, err := n.Float64()
	if err != nil || f != math.Trunc(f) || math.Abs(f) < maxExact {
		return err == nil
	}
	exact, ok := new(big.Rat).SetString(n.String())
	return ok && exact.Cmp(new(big.Rat).SetFloat64(f)) == 0
}

// decodeExact reads JSON and leaves numbers as they are written.
func decodeExact(b []byte) (v any, err error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	err = dec.Decode(&v)
	return v, err
}
