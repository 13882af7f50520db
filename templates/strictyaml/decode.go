package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The bounds of a file. They are far beyond what people write and keep a hostile file
// from taking the service's memory or stack.
const (
	MaxBytes    = 1 << 20
	maxDepth    = 64
	maxNodes    = 100_000 // aliases counted each time they are used
	maxProblems = 100
)

// Decode reads data, the content of file, into the struct that into points to. Fields
// are named by their yaml tags; those without one are not read. What the file leaves
// out stays as it was, so into may hold defaults; elements of maps and lists are
// given theirs by a method SetDefaults(), where they have one. A nil error means that
// the whole file was understood; otherwise it is a [Problems].
func Decode(file string, data []byte, into any) (*Document, error) {
	d := &decoder{doc: &Document{File: file, places: map[string]place{}}}
	root, problem := parse(data)
	switch {
	case problem != nil:
		problem.File = file
		d.problems = Problems{*problem}
	case root != nil:
		d.value("", root, reflect.ValueOf(into).Elem())
	}
	return d.doc, d.problems.OrNil()
}

// parse returns the one document in data, or nil where there is none.
func parse(data []byte) (root *yaml.Node, problem *Problem) {
	if len(data) > MaxBytes {
		return nil, &Problem{Message: fmt.Sprintf("is too large: at most %d bytes are read", MaxBytes)}
	}
	defer func() {
		if r := recover(); r != nil { // the parser's own mistakes must not end the service
			root, problem = nil, &Problem{Message: "is not valid YAML"}
		}
	}()
	in := yaml.NewDecoder(bytes.NewReader(data))
	var first, second yaml.Node
	if err := in.Decode(&first); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, syntax(data, err)
	}
	if err := in.Decode(&second); err == nil {
		return nil, &Problem{Line: second.Line, Column: second.Column, Message: "holds more than one document; only one is read"}
	} else if !errors.Is(err, io.EOF) {
		return nil, syntax(data, err)
	}
	return content(&first), nil
}

// content returns what is in a document, or nil where that is nothing.
func content(doc *yaml.Node) *yaml.Node {
	if len(doc.Content) == 0 || doc.Content[0].Kind == yaml.ScalarNode && doc.Content[0].ShortTag() == "!!null" {
		return nil
	}
	return doc.Content[0]
}

var (
	atLine        = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)`)
	unknownAnchor = regexp.MustCompile(`^unknown anchor '(.*)' referenced$`)
)

// syntax makes a problem of what the parser did not like. The parser names the line,
// unless it is the first, and no column: that is where the line's text begins.
func syntax(data []byte, err error) *Problem {
	m := atLine.FindStringSubmatch(err.Error())
	if m == nil {
		return &Problem{Line: 1, Column: 1, Message: "is not valid YAML"}
	}
	if anchor := unknownAnchor.FindStringSubmatch(m[2]); anchor != nil { // its name may be a secret that begins with *
		p := placeAt(data, bytes.Index(data, []byte("*"+anchor[1])))
		return &Problem{Line: p.line, Column: p.column, Message: "refers to an anchor that is not defined before"}
	}
	line, _ := strconv.Atoi(m[1])
	line = max(1, line)
	return &Problem{Line: line, Column: indentOf(data, line) + 1, Message: "is not valid YAML: " + m[2]}
}

// placeAt turns an offset into a place.
func placeAt(data []byte, offset int) place {
	before := data[:max(0, offset)]
	return place{bytes.Count(before, []byte("\n")) + 1, len(before) - bytes.LastIndexByte(before, '\n')}
}

// indentOf is the number of blanks before the text of a line.
func indentOf(data []byte, line int) int {
	lines := strings.SplitN(string(data), "\n", line+1)
	if line > len(lines) {
		return 0
	}
	text := lines[line-1]
	return len(text) - len(strings.TrimLeft(text, " \t"))
}
