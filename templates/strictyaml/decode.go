package strictyaml

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
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
	d := &decoder{doc: &Document{File: file, places: map[string]place{}}, anchors: map[string]ast.Node{}}
	root, err := parse(data)
	if err != nil {
		d.syntax(err)
		return d.doc, d.problems.OrNil()
	}
	if root != nil {
		d.value("", root, reflect.ValueOf(into).Elem())
	}
	return d.doc, d.problems.OrNil()
}

// errorAt is a problem found before there is a tree.
type errorAt struct {
	at      *token.Token
	message string
}

// Error returns the message.
func (e *errorAt) Error() string { return e.message }

// parse returns the one document in data, or nil where there is none.
func parse(data []byte) (root ast.Node, err error) {
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("is too large: %d bytes, at most %d are read", len(data), MaxBytes)
	}
	defer func() {
		if r := recover(); r != nil { // the parser's own mistakes must not end the service
			root, err = nil, errors.New("is not valid YAML")
		}
	}()
	tokens := lexer.Tokenize(string(data))
	if err := checkNesting(tokens); err != nil {
		return nil, err
	}
	f, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey()) // duplicates are reported with all other problems
	if err != nil {
		return nil, err
	}
	return single(f)
}

func single(f *ast.File) (ast.Node, error) {
	var root ast.Node
	for _, doc := range f.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.CommentType {
			continue
		}
		if root != nil {
			return nil, &errorAt{doc.Body.GetToken(), "holds more than one document; only one is read"}
		}
		root = doc.Body
	}
	return root, nil
}

// checkNesting bounds how deep the parser will have to recurse.
func checkNesting(tokens token.Tokens) error {
	open, entries, line := 0, 0, 0
	for _, t := range tokens {
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			open++
		case token.MappingEndType, token.SequenceEndType:
			open--
		case token.SequenceEntryType, token.MappingKeyType, token.MappingValueType, token.TagType, token.AnchorType:
			if t.Position.Line != line {
				line, entries = t.Position.Line, 0
			}
			entries++
		default:
			continue
		}
		if open > maxDepth || open == 0 && entries > maxDepth || t.Position.Column > MaxBytes {
			return &errorAt{t, fmt.Sprintf("is nested too deeply; %d levels are read", maxDepth)}
		}
	}
	return nil
}

// syntax notes what the parser did not like. Its own text with an excerpt of the file
// is not used: the excerpt may hold a secret.
func (d *decoder) syntax(err error) {
	p := Problem{File: d.doc.File, Message: err.Error()}
	var at *token.Token
	var ours *errorAt
	var theirs yaml.Error
	switch {
	case errors.As(err, &ours):
		at = ours.at
	case errors.As(err, &theirs):
		p.Message, at = "is not valid YAML: "+theirs.GetMessage(), theirs.GetToken()
	}
	if at != nil && at.Position != nil {
		p.Line, p.Column = at.Position.Line, at.Position.Column
	}
	d.problems = append(d.problems, p)
}
