package strictyaml

import (
	"encoding"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// decoder walks one document.
type decoder struct {
	doc      *Document
	anchors  map[string]ast.Node
	problems Problems
	depth    int
	nodes    int
	spent    bool
}

// defaulter is an element that knows its own defaults.
type defaulter interface{ SetDefaults() }

// problem notes what is wrong with a node.
func (d *decoder) problem(path string, n ast.Node, format string, args ...any) {
	if len(d.problems) >= maxProblems {
		return
	}
	p := Problem{File: d.doc.File, Path: path, Message: fmt.Sprintf(format, args...)}
	if at := placeOf(n); at != (place{}) {
		p.Line, p.Column = at.line, at.column
	}
	d.problems = append(d.problems, p)
}

// placeOf is where a node begins.
func placeOf(n ast.Node) place {
	if n == nil {
		return place{}
	}
	t := n.GetToken()
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		t = m.Values[0].Key.GetToken()
	}
	if v, ok := n.(*ast.MappingValueNode); ok {
		t = v.Key.GetToken()
	}
	if t == nil || t.Position == nil {
		return place{}
	}
	return place{t.Position.Line, t.Position.Column}
}

// value reads n into rv.
func (d *decoder) value(path string, n ast.Node, rv reflect.Value) {
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
	if u, ok := rv.Addr().Interface().(encoding.TextUnmarshaler); ok {
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

// enter counts a node, notes its place and looks through anchors and aliases.
func (d *decoder) enter(path string, n ast.Node) (ast.Node, bool) {
	if d.nodes++; d.nodes > maxNodes || d.depth > maxDepth {
		if !d.spent {
			d.problem(path, n, "is too large or nested too deeply once its aliases are followed")
		}
		d.spent = true
	}
	if d.spent {
		return nil, false
	}
	if _, known := d.doc.places[path]; !known && path != "" {
		d.doc.places[path] = placeOf(n)
	}
	for range maxDepth {
		switch v := n.(type) {
		case *ast.AnchorNode:
			d.anchors[v.Name.GetToken().Value] = v.Value
			n = v.Value
		case *ast.AliasNode:
			target, ok := d.anchors[v.Value.GetToken().Value]
			if !ok {
				d.problem(path, n, "refers to an anchor that is not defined before")
				return nil, false
			}
			n = target
		case *ast.TagNode:
			d.problem(path, n, "has a tag, and tags are not supported")
			return nil, false
		default:
			return n, n != nil
		}
	}
	d.problem(path, n, "refers to itself")
	return nil, false
}

// entry is one key of a mapping.
type entry struct {
	key   string
	node  ast.Node // the key's
	value ast.Node
}

// entries returns the keys of a mapping, in order, without duplicates.
func (d *decoder) entries(path string, n ast.Node) ([]entry, bool) {
	var values []*ast.MappingValueNode
	switch m := n.(type) {
	case *ast.MappingNode:
		values = m.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{m}
	case *ast.NullNode:
		return nil, true // a section whose content is commented out
	default:
		d.problem(path, n, "must be a mapping (key: value), not %s", kindOf(n))
		return nil, false
	}
	seen := map[string]bool{}
	out := make([]entry, 0, len(values))
	for _, v := range values {
		key, ok := d.key(path, v)
		switch {
		case !ok:
		case seen[key]:
			d.problem(join(path, key), v.Key, "stands here a second time")
		default:
			seen[key] = true
			out = append(out, entry{key, v.Key, v.Value})
		}
	}
	return out, true
}

func (d *decoder) key(path string, v *ast.MappingValueNode) (string, bool) {
	switch k := v.Key.(type) {
	case *ast.MergeKeyNode:
		d.problem(path, k, "merge keys (<<) are not supported; write the values out")
	case *ast.StringNode:
		return k.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
		return v.Key.GetToken().Value, true
	default:
		d.problem(path, v, "keys must be plain words")
	}
	return "", false
}

func (d *decoder) structure(path string, n ast.Node, rv reflect.Value) {
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

// child reads the value of a key; where it is a container, its place is the key's.
func (d *decoder) child(path string, e entry, rv reflect.Value) {
	switch e.value.(type) {
	case *ast.MappingNode, *ast.MappingValueNode, *ast.SequenceNode, *ast.NullNode:
		d.doc.places[path] = placeOf(e.node)
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

func (d *decoder) mapping(path string, n ast.Node, rv reflect.Value) {
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

func (d *decoder) list(path string, n ast.Node, rv reflect.Value) {
	if _, null := n.(*ast.NullNode); null {
		return
	}
	s, ok := n.(*ast.SequenceNode)
	if !ok {
		d.problem(path, n, "must be a list, not %s", kindOf(n))
		return
	}
	out := reflect.MakeSlice(rv.Type(), 0, len(s.Values))
	for i, v := range s.Values {
		element := newElement(rv.Type().Elem())
		d.value(fmt.Sprintf("%s[%d]", path, i), v, element)
		out = reflect.Append(out, element)
	}
	rv.Set(out)
}

// newElement returns a settable zero value with its defaults.
func newElement(t reflect.Type) reflect.Value {
	v := reflect.New(t)
	if e, ok := v.Interface().(defaulter); ok {
		e.SetDefaults()
	}
	return v.Elem()
}

// free reads what has no type of its own: maps, lists and plain values.
func (d *decoder) free(path string, n ast.Node, rv reflect.Value) {
	var v any
	switch n := n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		m := map[string]any{}
		d.mapping(path, n, reflect.ValueOf(&m).Elem())
		v = m
	case *ast.SequenceNode:
		l := []any{}
		d.list(path, n, reflect.ValueOf(&l).Elem())
		v = l
	case *ast.NullNode:
		return
	default:
		if v = plain(n); v == nil {
			d.problem(path, n, "is not a value that can be read")
			return
		}
	}
	rv.Set(reflect.ValueOf(v))
}

// plain returns a scalar's Go value, or nil where n is none.
func plain(n ast.Node) any {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value
	case *ast.LiteralNode:
		return n.Value.Value
	case *ast.BoolNode:
		return n.Value
	case *ast.FloatNode:
		return n.Value
	case *ast.IntegerNode:
		switch i := n.Value.(type) {
		case int64:
			return i
		case uint64:
			if i <= math.MaxInt64 {
				return int64(i)
			}
			return i
		}
	}
	return nil
}

func (d *decoder) text(path string, n ast.Node, u encoding.TextUnmarshaler) {
	s, ok := plain(n).(string)
	if !ok {
		d.problem(path, n, "must be text, not %s", kindOf(n))
		return
	}
	if err := u.UnmarshalText([]byte(s)); err != nil {
		d.problem(path, n, "%v", err)
	}
}

func (d *decoder) scalar(path string, n ast.Node, rv reflect.Value) {
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

func (d *decoder) duration(path string, n ast.Node, v any, rv reflect.Value) {
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
func kindOf(n ast.Node) string {
	switch n.(type) {
	case *ast.StringNode, *ast.LiteralNode:
		return "text"
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "a number"
	case *ast.BoolNode:
		return "true or false"
	case *ast.NullNode:
		return "nothing"
	case *ast.SequenceNode:
		return "a list"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	}
	return "this"
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
