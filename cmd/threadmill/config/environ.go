package config

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/threadmill/threadmill/templates/strictyaml"
)

// variablePrefix begins the names of all variables of the service.
const variablePrefix = "THREADMILL_"

// overrider sets what the environment says. A setting's variable is its path in
// capitals, with _ for every other sign: THREADMILL_ENGINE_MAX_CONCURRENT. Settings
// inside of maps can be changed for the entries that exist; lists are separated by
// commas.
type overrider struct {
	env      map[string]string
	set      map[string]string // path → variable
	problems strictyaml.Problems
}

func override(c *Config, env map[string]string) (set map[string]string, problems strictyaml.Problems) {
	o := &overrider{env: env, set: map[string]string{}}
	o.walk("", reflect.ValueOf(c).Elem())
	return o.set, o.problems
}

func (o *overrider) walk(path string, v reflect.Value) {
	switch {
	case v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[Secret]():
		for _, f := range strictyaml.Fields(v.Type()) {
			o.walk(strings.TrimPrefix(path+"."+f.Name, "."), v.Field(f.Index))
		}
	case v.Kind() == reflect.Map && v.Type().Elem().Kind() == reflect.Struct:
		o.entries(path, v)
	default:
		o.one(path, v)
	}
}

// entries changes a map's entries, which cannot be changed in place.
func (o *overrider) entries(path string, v reflect.Value) {
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	for _, key := range keys {
		entry := reflect.New(v.Type().Elem()).Elem()
		entry.Set(v.MapIndex(key))
		o.walk(path+"."+key.String(), entry)
		v.SetMapIndex(key, entry)
	}
}

func (o *overrider) one(path string, v reflect.Value) {
	name := variableFor(path)
	text := o.env[name]
	if text == "" { // containers pass on variables that nobody set
		return
	}
	if err := assign(text, v); err != nil {
		o.problems = append(o.problems, strictyaml.Problem{File: "environment", Path: name, Message: err.Error()})
		return
	}
	o.set[path] = name
}

// variableFor is the variable that sets the setting at path.
func variableFor(path string) string {
	return variablePrefix + strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, path)
}

// assign puts a variable's text into a setting. Its errors do not repeat the text.
func assign(text string, v reflect.Value) error {
	switch p := v.Addr().Interface().(type) {
	case *Secret:
		return p.UnmarshalText([]byte(text))
	case *string:
		*p = text
		return nil
	case *time.Duration:
		return put(p, text, time.ParseDuration, "must be a duration with its unit, such as 30s, 5m or 720h")
	case *bool:
		return put(p, text, strconv.ParseBool, "must be true or false")
	case *int:
		return put(p, text, strconv.Atoi, "must be a whole number")
	case *int64:
		return put(p, text, parseInt64, "must be a whole number")
	case *float64:
		return put(p, text, parseFloat64, "must be a number")
	case *[]string:
		*p = commas(text)
		return nil
	}
	return fmt.Errorf("cannot be set by the environment; write it into %s", FileName)
}

// put sets p to what text means, or leaves it as it was.
func put[T any](p *T, text string, parse func(string) (T, error), otherwise string) error {
	v, err := parse(text)
	if err != nil {
		return errors.New(otherwise)
	}
	*p = v
	return nil
}

func parseInt64(text string) (int64, error) { return strconv.ParseInt(text, 10, 64) }

// parseFloat64 takes finite numbers only: nothing compares with the others.
func parseFloat64(text string) (float64, error) {
	f, err := strconv.ParseFloat(text, 64)
	if err == nil && (math.IsNaN(f) || math.IsInf(f, 0)) {
		err = strconv.ErrRange
	}
	return f, err
}

func commas(text string) []string {
	out := []string{}
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

// sortedKeys returns a map's keys in alphabetical order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
