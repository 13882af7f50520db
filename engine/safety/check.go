package safety

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// maxExact is the largest integer that a JSON number read as a float still tells apart.
const maxExact = 1 << 53

// Check checks arguments and returns them with defaults filled in, each as a string,
// int64, float64 or bool. What was typed in chat is text, so text becomes a number or
// a boolean where the schema asks for one. All problems are reported at once, as
// [Errors] by argument.
func (s *Schema) Check(args map[string]any) (map[string]any, error) {
	var es Errors
	resolved := make(map[string]any, len(args)+len(s.props))
	for name, value := range args {
		p := s.props[name]
		v, err := p.plain(argField(name), value)
		if err != nil {
			es = append(es, err)
			continue
		}
		resolved[name] = v
	}
	for name, p := range s.props {
		if _, given := args[name]; !given && p.fallback != nil {
			resolved[name] = p.fallback
		}
	}
	es = append(es, s.validate(resolved, args)...)
	if err := es.orNil(); err != nil {
		return nil, err
	}
	return resolved, nil
}

// validate holds the resolved arguments against the schema. Those of args that were
// refused already are not reported again as missing.
func (s *Schema) validate(resolved, args map[string]any) Errors {
	err := s.compiled.Validate(resolved)
	var ve *jsonschema.ValidationError
	if !errors.As(err, &ve) {
		if err != nil {
			return Errors{refuse("args", "%v", err)}
		}
		return nil
	}
	var es Errors
	for _, leaf := range leaves(ve) {
		for _, e := range s.explain(leaf) {
			_, refused := args[e.Field]
			_, kept := resolved[e.Field]
			if !refused || kept {
				es = append(es, e)
			}
		}
	}
	return es
}

// explain turns one finding of the validator into problems by argument.
func (s *Schema) explain(leaf *jsonschema.ValidationError) Errors {
	var es Errors
	switch k := leaf.ErrorKind.(type) {
	case *kind.Required:
		for _, name := range k.Missing {
			es = append(es, refuse(name, "is required"))
		}
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			es = append(es, refuse(argField(name), "is not an argument here; %s", s.known()))
		}
	default:
		field := "args"
		if len(leaf.InstanceLocation) > 0 {
			field = argField(leaf.InstanceLocation[0])
		}
		es = append(es, refuse(field, "%s", describe(leaf)))
	}
	return es
}

func (s *Schema) known() string {
	if len(s.props) == 0 {
		return "there are none"
	}
	return "there are: " + strings.Join(slices.Sorted(maps.Keys(s.props)), ", ")
}

// argField makes a name that a stranger chose fit for an error message.
func argField(name string) string {
	if argName.MatchString(name) {
		return name
	}
	return shown(name)
}

// plain returns value in the form in which it is checked and rendered.
func (p property) plain(field string, value any) (any, *Error) {
	switch v := value.(type) {
	case string:
		if err := checkText(field, v, p.multiline); err != nil {
			return nil, err
		}
		return p.fromText(v), nil
	case bool:
		return v, nil
	case map[string]any, []any:
		return nil, refuse(field, "must be a plain value; lists and objects are not taken")
	case nil:
		return nil, refuse(field, "has no value")
	}
	n, ok := number(value)
	if !ok {
		return nil, refuse(field, "is not a number that can be taken exactly")
	}
	return n, nil
}

// fromText reads what was typed as what the schema asks for. Text that cannot be read
// so stays text, and the schema then says what was expected.
func (p property) fromText(s string) any {
	if len(p.types) == 0 || slices.Contains(p.types, "string") {
		return s
	}
	if slices.Contains(p.types, "boolean") && (s == "true" || s == "false") {
		return s == "true"
	}
	numeric := slices.Contains(p.types, "integer") || slices.Contains(p.types, "number")
	if numeric && json.Valid([]byte(s)) && strings.ContainsAny(s[:1], "-0123456789") {
		if n, ok := number(json.Number(s)); ok {
			return n
		}
	}
	return s
}

// number returns a number as int64 where it is whole, otherwise as float64. Whole
// numbers beyond what it can hold exactly are not taken.
func number(value any) (any, bool) {
	switch v := value.(type) {
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i, true
		}
		f, err := v.Float64()
		if err != nil {
			return nil, false
		}
		return number(f)
	case float64:
		return fromFloat(v)
	case float32:
		return fromFloat(float64(v))
	case uint64:
		return int64(v), v <= math.MaxInt64 //nolint:gosec // the second result says whether it fits
	}
	i, err := strconv.ParseInt(fmt.Sprint(value), 10, 64)
	return i, err == nil
}

func fromFloat(f float64) (any, bool) {
	switch {
	case math.IsNaN(f) || math.IsInf(f, 0):
		return nil, false
	case f == math.Trunc(f):
		return int64(f), math.Abs(f) <= maxExact
	}
	return f, true
}

// leaves returns the findings that are not made of others.
func leaves(e *jsonschema.ValidationError) []*jsonschema.ValidationError {
	if len(e.Causes) == 0 {
		return []*jsonschema.ValidationError{e}
	}
	var out []*jsonschema.ValidationError
	for _, cause := range e.Causes {
		out = append(out, leaves(cause)...)
	}
	return out
}

// describe says in plain words what is wrong and what is allowed.
func describe(e *jsonschema.ValidationError) string {
	switch k := e.ErrorKind.(type) {
	case *kind.Type:
		return "must be " + strings.Join(withArticles(k.Want), " or ") + ", not " + withArticle(k.Got)
	case *kind.Enum:
		return "must be one of " + list(k.Want)
	case *kind.Const:
		return "must be " + list([]any{k.Want})
	case *kind.Pattern:
		return fmt.Sprintf("%s does not match the pattern %s", shown(k.Got), k.Want)
	case *kind.MinLength:
		return fmt.Sprintf("must have at least %d characters, not %d", k.Want, k.Got)
	case *kind.MaxLength:
		return fmt.Sprintf("must have at most %d characters, not %d", k.Want, k.Got)
	case *kind.Minimum:
		return fmt.Sprintf("must be at least %s, not %s", ratText(k.Want), ratText(k.Got))
	case *kind.Maximum:
		return fmt.Sprintf("must be at most %s, not %s", ratText(k.Want), ratText(k.Got))
	case *kind.Format:
		return fmt.Sprintf("%s is not a valid %s", shown(fmt.Sprint(k.Got)), k.Want)
	}
	return e.BasicOutput().Error.String()
}

func ratText(r *big.Rat) string {
	if r.IsInt() {
		return r.RatString()
	}
	f, _ := r.Float64()
	return strconv.FormatFloat(f, 'g', -1, 64)
}

func list(values []any) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = fmt.Sprint(v)
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
