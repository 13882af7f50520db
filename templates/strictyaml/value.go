package strictyaml

import (
	"encoding"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// decoder walks one document.
type decoder struct {
	doc      *Document
	problems Problems
	depth    int
	nodes    int
	spent    bool
}

// defaulter is an element that knows its own defaults.
type defaulter interface{ SetDefaults() }

// problem notes what is wrong with a node.
func (d *decoder) problem(path string, n *yaml.Node, format string, args ...any) {
	if len(d.problems) >= maxProblems {
		return
	}
	d.problems = append(d.problems, Problem{
		File: d.doc.File, Line: n.Line, Column: n.Column, Path: path, Message: fmt.Sprintf(format, args...),
	})
}

// value reads n into rv.
func (d *decoder) value(path string, n *yaml.Node, rv reflect.Value) {
	d.depth++
	defer func() { d.depth-- }()
	n, ok := d.enter(path, n)
	if !ok {
		return
	}
	if rv.Kind() == reflect.Pointer {
		rv.Set(reflect.New(rv.Type().Elem()))
		rv = rv.Elem()
	}
	if u, ok := reflect.TypeAssert[encoding.TextUnmarshaler](rv.Addr()); ok {
		d.text(path, n, u)
		return
	}
	switch rv.Kind() {
	case reflect.Struct:
		d.structure(path, n, rv)
	case reflect.Map:
		d.mapping(path, n, rv)
	case reflect.Slice:
		d.list(path, n, rv)
	case reflect.Interface:
		d.free(path, n, rv)
	default:
		d.scalar(path, n, rv)
	}
}

// enter counts a node, notes its place and follows an alias.
func (d *decoder) enter(path string, n *yaml.Node) (*yaml.Node, bool) {
	if d.nodes++; d.nodes > maxNodes || d.depth > maxDepth {
		if !d.spent {
			d.problem(path, n, "is too large or nested too deeply once its aliases are followed")
		}
		d.spent = true
	}
	if d.spent {
		return nil, false
	}
	if _, known := d.doc.places[path]; !known {
		d.doc.places[path] = place{n.Line, n.Column}
	}
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Style&yaml.TaggedStyle != 0 {
		d.problem(path, n, "has a tag, and tags are not supported")
		return nil, false
	}
	return n, true
}

// entry is one key of a mapping.
type entry struct {
	key   string
	node  *yaml.Node // the key's
	value *yaml.Node
}

// entries returns the keys of a mapping, in order, without duplicates.
func (d *decoder) entries(path string, n *yaml.Node) ([]entry, bool) {
	if isNull(n) {
		return nil, true // a section whose content is commented out
	}
	if n.Kind != yaml.MappingNode {
		d.problem(path, n, "must be a mapping (key: value), not %s", kindOf(n))
		return nil, false
	}
	seen := map[string]bool{}
	out := make([]entry, 0, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		switch {
		case key.Kind != yaml.ScalarNode || key.Style&yaml.TaggedStyle != 0:
			d.problem(path, key, "keys must be plain words")
		case key.ShortTag() == "!!merge":
			d.problem(path, key, "merge keys (<<) are not supported; write the values out")
		case seen[key.Value]:
			d.problem(join(path, key.Value), key, "stands here a second time")
		default:
			seen[key.Value] = true
			out = append(out, entry{key.Value, key, n.Content[i+1]})
		}
	}
	return out, true
}

func (d *decoder) structure(path string, n *yaml.Node, rv reflect.Value) {
	entries, _ := d.entries(path, n)
	fields := Fields(rv.Type())
	for _, e := range entries {
		at := join(path, e.key)
		i := slices.IndexFunc(fields, func(f Field) bool { return f.Name == e.key })
		if i < 0 {
			d.unknown(at, e, fields)
			continue
		}
		d.child(at, e, rv.Field(fields[i].Index))
	}
}

// child reads the value of a key; unless it is a plain value, its place is the key's.
func (d *decoder) child(path string, e entry, rv reflect.Value) {
	if e.value.Kind != yaml.ScalarNode || isNull(e.value) {
		d.doc.places[path] = place{e.node.Line, e.node.Column}
	}
	d.value(path, e.value, rv)
}

func (d *decoder) unknown(path string, e entry, fields []Field) {
	known := make([]string, len(fields))
	for i, f := range fields {
		known[i] = f.Name
	}
	slices.Sort(known)
	if near := nearest(e.key, known); near != "" {
		d.problem(path, e.node, "is not a known key; did you mean %s?", near)
		return
	}
	d.problem(path, e.node, "is not a known key; there are: %s", strings.Join(known, ", "))
}

func (d *decoder) mapping(path string, n *yaml.Node, rv reflect.Value) {
	entries, ok := d.entries(path, n)
	if !ok {
		return
	}
	rv.Set(reflect.MakeMap(rv.Type()))
	for _, e := range entries {
		element := newElement(rv.Type().Elem())
		d.child(join(path, e.key), e, element)
		rv.SetMapIndex(reflect.ValueOf(e.key).Convert(rv.Type().Key()), element)
	}
}

func (d *decoder) list(path string, n *yaml.Node, rv reflect.Value) {
	if isNull(n) {
		return
	}
	if n.Kind != yaml.SequenceNode {
		d.problem(path, n, "must be a list, not %s", kindOf(n))
		return
	}
	out := reflect.MakeSlice(rv.Type(), 0, len(n.Content))
	for i, v := range n.Content {
		element := newElement(rv.Type().Elem())
		d.value(fmt.Sprintf("%s[%d]", path, i), v, element)
		out = reflect.Append(out, element)
	}
	rv.Set(out)
}

// newElement returns a settable zero value with its defaults.
func newElement(t reflect.Type) reflect.Value {
	v := reflect.New(t)
	if e, ok := reflect.TypeAssert[defaulter](v); ok {
		e.SetDefaults()
	}
	return v.Elem()
}

// free reads what has no type of its own: maps, lists and plain values.
func (d *decoder) free(path string, n *yaml.Node, rv reflect.Value) {
	var v any
	switch {
	case n.Kind == yaml.MappingNode:
		m := map[string]any{}
		d.mapping(path, n, reflect.ValueOf(&m).Elem())
		v = m
	case n.Kind == yaml.SequenceNode:
		l := []any{}
		d.list(path, n, reflect.ValueOf(&l).Elem())
		v = l
	case isNull(n):
		return
	default:
		if v = plain(n); v == nil {
			d.problem(path, n, "is not a value that can be read")
			return
		}
	}
	rv.Set(reflect.ValueOf(v))
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// plain returns a scalar as string, bool, int64 or float64, or nil where n is none or
// is a number that these cannot hold.
func plain(n *yaml.Node) any {
	if n.Kind != yaml.ScalarNode {
		return nil
	}
	switch n.ShortTag() {
	case "!!str", "!!timestamp":
		return n.Value
	case "!!bool", "!!int", "!!float":
		var v any
		if err := n.Decode(&v); err != nil {
			return nil
		}
		return number(v)
	}
	return nil
}

// number leaves one type of each kind; dates are not among what it is given.
func number(v any) any {
	switch v := v.(type) {
	case bool:
		return v
	case int:
		return int64(v)
	case int64:
		return v
	case float64:
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			return v
		}
	}
	return nil
}

func (d *decoder) text(path string, n *yaml.Node, u encoding.TextUnmarshaler) {
	s, ok := plain(n).(string)
	if !ok {
		d.problem(path, n, "must be text, not %s", kindOf(n))
		return
	}
	if err := u.UnmarshalText([]byte(s)); err != nil {
		d.problem(path, n, "%v", err)
	}
}

func (d *decoder) scalar(path string, n *yaml.Node, rv reflect.Value) {
	v := plain(n)
	if rv.Type() == reflect.TypeFor[time.Duration]() {
		d.duration(path, n, v, rv)
		return
	}
	ok, want := assign(v, rv)
	switch {
	case ok:
	case want == "text" && v != nil:
		d.problem(path, n, "must be text, not %s; put it in quotes", kindOf(n))
	default:
		d.problem(path, n, "must be %s, not %s", want, kindOf(n))
	}
}

// assign puts a plain value into a field; want is what the field takes.
func assign(v any, rv reflect.Value) (ok bool, want string) {
	switch rv.Kind() {
	case reflect.String:
		s, ok := v.(string)
		if ok {
			rv.SetString(s)
		}
		return ok, "text"
	case reflect.Bool:
		b, ok := v.(bool)
		if ok {
			rv.SetBool(b)
		}
		return ok, "true or false"
	case reflect.Int, reflect.Int64:
		i, ok := v.(int64)
		if ok && !rv.OverflowInt(i) {
			rv.SetInt(i)
		}
		return ok, "a whole number"
	case reflect.Float64:
		switch f := v.(type) {
		case float64:
			rv.SetFloat(f)
			return true, ""
		case int64:
			rv.SetFloat(float64(f))
			return true, ""
		}
		return false, "a number"
	}
	return false, "something else"
}

func (d *decoder) duration(path string, n *yaml.Node, v any, rv reflect.Value) {
	switch v := v.(type) {
	case string:
		if dur, err := time.ParseDuration(v); err == nil {
			rv.SetInt(int64(dur))
			return
		}
	case int64:
		if v == 0 {
			rv.SetInt(0)
			return
		}
	}
	d.problem(path, n, "must be a duration with its unit, such as 30s, 5m or 720h")
}

// kindOf names a node for people.
func kindOf(n *yaml.Node) string {
	if n.Kind == yaml.MappingNode {
		return "a mapping"
	}
	if n.Kind == yaml.SequenceNode {
		return "a list"
	}
	switch n.ShortTag() {
	case "!!str", "!!timestamp":
		return "text"
	case "!!bool":
		return "true or false"
	case "!!null":
		return "nothing"
	}
	return "a number"
}

// Field is a field that a file may name.
type Field struct {
	Name  string
	Index int
}

// Fields returns the fields of a struct type that have a yaml tag, in order.
func Fields(t reflect.Type) []Field {
	var out []Field
	for i := range t.NumField() {
		if name := t.Field(i).Tag.Get("yaml"); name != "" && name != "-" {
			out = append(out, Field{name, i})
		}
	}
	return out
}
