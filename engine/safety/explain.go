package safety

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
)

// The library stops at the first thing that is wrong and says it in words for
// programmers. So it only decides; where it refuses something, it is asked again about
// each keyword by itself, and what is said about those that are not met is ours.

// demand is one keyword as a schema of its own, and the words for it where it is not met.
type demand struct {
	part  jsonschema.Schema
	words func() string
}

// holds asks the library about a schema, which has to stand alone.
func holds(schema *jsonschema.Schema, value any) bool {
	resolved, err := schema.Resolve(nil)
	return err == nil && resolved.Validate(value) == nil
}

// explain says everything about value that schema refuses. The value is either that of
// one argument, which field names, or all arguments.
func (s *Schema) explain(field string, schema *jsonschema.Schema, value any) Errors {
	if holds(schema, value) {
		return nil
	}
	for _, d := range identity(schema, value) { // what is something else altogether is not looked at more closely
		if !holds(&d.part, value) {
			return Errors{refuse(field, "%s", d.words())}
		}
	}
	var es Errors
	for _, d := range limits(schema, value) {
		if !holds(&d.part, value) {
			es = append(es, refuse(field, "%s", d.words()))
		}
	}
	es = append(es, s.explainLogic(field, schema, value)...)
	if args, ok := value.(map[string]any); ok {
		es = append(es, s.explainArgs(schema, args)...)
	}
	if len(es) == 0 {
		es = Errors{refuse(field, "does not fit the schema")}
	}
	return es
}

// identity is what a schema says of what a value is.
func identity(schema *jsonschema.Schema, value any) []demand {
	return []demand{
		{jsonschema.Schema{Type: schema.Type, Types: schema.Types}, func() string {
			return "must be " + strings.Join(withArticles(typesOf(schema)), " or ") + ", not " + withArticle(typeName(value))
		}},
		{jsonschema.Schema{Const: schema.Const}, func() string { return "must be " + list([]any{*schema.Const}) }},
		{jsonschema.Schema{Enum: schema.Enum}, func() string { return "must be one of " + list(schema.Enum) }},
	}
}

// limits is what a schema says of how much a value is.
func limits(schema *jsonschema.Schema, value any) []demand {
	text, _ := value.(string)
	args, _ := value.(map[string]any)
	than := func(words string, limit *float64) func() string {
		return func() string {
			return fmt.Sprintf("must be %s %s, not %s", words, valueShown(*limit), valueShown(value))
		}
	}
	count := func(words string, limit *int, got int, what string) func() string {
		return func() string { return fmt.Sprintf("must have %s %d %s, not %d", words, *limit, what, got) }
	}
	length := utf8.RuneCountInString(text)
	return []demand{
		{jsonschema.Schema{Pattern: schema.Pattern}, func() string {
			return fmt.Sprintf("%s does not match the pattern %s", shown(text), schema.Pattern)
		}},
		{jsonschema.Schema{MinLength: schema.MinLength}, count("at least", schema.MinLength, length, "characters")},
		{jsonschema.Schema{MaxLength: schema.MaxLength}, count("at most", schema.MaxLength, length, "characters")},
		{jsonschema.Schema{Minimum: schema.Minimum}, than("at least", schema.Minimum)},
		{jsonschema.Schema{Maximum: schema.Maximum}, than("at most", schema.Maximum)},
		{jsonschema.Schema{ExclusiveMinimum: schema.ExclusiveMinimum}, than("more than", schema.ExclusiveMinimum)},
		{jsonschema.Schema{ExclusiveMaximum: schema.ExclusiveMaximum}, than("less than", schema.ExclusiveMaximum)},
		{jsonschema.Schema{MinProperties: schema.MinProperties}, count("at least", schema.MinProperties, len(args), "arguments")},
		{jsonschema.Schema{MaxProperties: schema.MaxProperties}, count("at most", schema.MaxProperties, len(args), "arguments")},
	}
}

// explainLogic says what is wrong with a value by the schemas that a schema combines.
func (s *Schema) explainLogic(field string, schema *jsonschema.Schema, value any) Errors {
	var es Errors
	for _, part := range schema.AllOf {
		es = append(es, s.explain(field, part, value)...)
	}
	if schema.AnyOf != nil && fitting(schema.AnyOf, value) == 0 {
		es = append(es, s.neither(field, schema.AnyOf, value))
	}
	if schema.OneOf != nil {
		switch n := fitting(schema.OneOf, value); n {
		case 0:
			es = append(es, s.neither(field, schema.OneOf, value))
		case 1:
		default:
			es = append(es, refuse(field, "fits %d of the forms of which it may fit only one", n))
		}
	}
	if schema.Not != nil && holds(schema.Not, value) {
		es = append(es, refuse(field, "%s", excluded(schema.Not)))
	}
	if schema.If != nil {
		then := schema.Else
		if holds(schema.If, value) {
			then = schema.Then
		}
		if then != nil {
			es = append(es, s.explain(field, then, value)...)
		}
	}
	return es
}

func fitting(schemas []*jsonschema.Schema, value any) int {
	n := 0
	for _, schema := range schemas {
		if holds(schema, value) {
			n++
		}
	}
	return n
}

// neither says in one sentence why a value fits none of several schemas.
func (s *Schema) neither(field string, schemas []*jsonschema.Schema, value any) *Error {
	ways := make([]string, len(schemas))
	for i, schema := range schemas {
		var reasons []string
		for _, e := range s.explain(field, schema, value) {
			if e.Field != field {
				e.Message = e.Field + " " + e.Message
			}
			reasons = append(reasons, e.Message)
		}
		ways[i] = strings.Join(reasons, " and ")
	}
	return refuse(field, "%s", strings.Join(slices.Compact(ways), ", or "))
}

// excluded says what a value must not be.
func excluded(not *jsonschema.Schema) string {
	switch {
	case not.Const != nil:
		return "must not be " + list([]any{*not.Const})
	case not.Enum != nil:
		return "must be none of " + list(not.Enum)
	case not.Pattern != "":
		return "must not match the pattern " + not.Pattern
	}
	return "is something that the schema does not allow"
}

// explainArgs says what is wrong with the arguments, each by its name.
func (s *Schema) explainArgs(schema *jsonschema.Schema, args map[string]any) Errors {
	var es Errors
	for _, name := range missing(schema.Required, args) {
		es = append(es, refuse(argField(name), "is required"))
	}
	for _, name := range slices.Sorted(maps.Keys(args)) {
		es = append(es, s.explainArg(schema, name, args[name])...)
		if schema.PropertyNames != nil && !holds(schema.PropertyNames, name) {
			es = append(es, refuse(argField(name), "is not a possible name of an argument"))
		}
		for _, other := range missing(schema.DependentRequired[name], args) {
			es = append(es, refuse(argField(other), "is required where %s is given", argField(name)))
		}
		if also := schema.DependentSchemas[name]; also != nil {
			es = append(es, s.explain("args", also, args)...)
		}
	}
	return es
}

// explainArg holds one argument against all that schema says about its name.
func (s *Schema) explainArg(schema *jsonschema.Schema, name string, value any) Errors {
	var es Errors
	field := argField(name)
	known := false
	if sub := schema.Properties[name]; sub != nil {
		known = true
		es = append(es, s.explain(field, sub, value)...)
	}
	for _, pattern := range slices.Sorted(maps.Keys(schema.PatternProperties)) {
		if matched, _ := regexp.MatchString(pattern, name); matched {
			known = true
			es = append(es, s.explain(field, schema.PatternProperties[pattern], value)...)
		}
	}
	switch others := schema.AdditionalProperties; {
	case known || others == nil:
	case others.Not != nil && reflect.ValueOf(*others.Not).IsZero(): // this is what the library makes of false
		es = append(es, refuse(field, "is not an argument here; %s", s.known()))
	default:
		es = append(es, s.explain(field, others, value)...)
	}
	return es
}

func missing(names []string, args map[string]any) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		_, given := args[name]
		return given
	})
}

func (s *Schema) known() string {
	if len(s.props) == 0 {
		return "there are none"
	}
	return "there are: " + strings.Join(s.Names(), ", ")
}

// typeName is what JSON calls a value.
func typeName(value any) string {
	switch value.(type) {
	case string:
		return "string"
	case bool:
		return "boolean"
	case nil:
		return "null"
	case map[string]any:
		return "object"
	case []any:
		return "array"
	}
	return "number"
}

// valueShown is a value of a schema, or a number, in a message.
func valueShown(value any) string {
	if f, ok := value.(float64); ok {
		if i, whole := fromFloat(f); whole {
			value = i
		}
	}
	if f, ok := value.(float64); ok {
		return strconv.FormatFloat(f, 'g', -1, 64)
	}
	return fmt.Sprint(value)
}

func list(values []any) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = valueShown(v)
	}
	return strings.Join(texts, ", ")
}

func withArticles(types []string) []string {
	out := make([]string, len(types))
	for i, t := range types {
		out[i] = withArticle(t)
	}
	return out
}

func withArticle(noun string) string {
	if noun != "" && strings.Contains("aio", noun[:1]) {
		return "an " + noun
	}
	return "a " + noun
}
