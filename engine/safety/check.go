package safety

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
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
	var es Errors
	if s.compiled.Validate(resolved) != nil {
		if es = s.explain("args", s.compiled.Schema(), resolved); len(es) == 0 {
			return Errors{refuse("args", "does not fit the schema")}
		}
	}
	for name, value := range resolved {
		es = append(es, s.props[name].unmet(name, value)...)
	}
	return slices.DeleteFunc(es, func(e *Error) bool {
		_, given := args[e.Field]
		_, kept := resolved[e.Field]
		return given && !kept
	})
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
