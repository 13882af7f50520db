// Package strictyaml reads YAML into structs and forgives nothing: unknown and
// duplicate keys, wrong types and bad durations are all reported at once, each with
// file, line and column. It never quotes values from the file, since any of them may
// be a secret in the wrong place.
//
// It knows nothing of what it reads: the structs say what there may be.
package strictyaml

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing wrong with a file. Line and Column count from 1; 0 means that
// the problem has no place in it.
type Problem struct {
	File    string
	Line    int
	Column  int
	Path    string // the key it is about, such as "agents.claude.binary"; empty: the whole file
	Message string
}

// String returns file:line:column: path: message.
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", p.Line, p.Column)
	}
	for _, part := range []string{p.Path, p.Message} {
		if b.Len() > 0 && part != "" {
			b.WriteString(": ")
		}
		b.WriteString(part)
	}
	return b.String()
}

// Problems is everything wrong at once, as an error.
type Problems []Problem //nolint:errname // they are what is wrong with a file; that they are an error comes second

// Error lists the problems, one a line.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// OrNil returns the problems in the order of the file as an error, or nil where there
// are none.
func (ps Problems) OrNil() error {
	if len(ps) == 0 {
		return nil
	}
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Path, b.Path))
	})
	return ps
}

// Document tells where in a file things stand, for problems that are only found once
// it was read.
type Document struct {
	File   string
	places map[string]place
}

type place struct{ line, column int }

// Has reports whether the file says anything about path.
func (d *Document) Has(path string) bool {
	_, ok := d.places[path]
	return ok
}

// Problem makes a problem about path, at its place or that of the nearest thing around
// it that the file has.
func (d *Document) Problem(path, format string, args ...any) Problem {
	p := Problem{File: d.File, Path: path, Message: fmt.Sprintf(format, args...)}
	at := path
	for !d.Has(at) && at != "" {
		at = parent(at)
	}
	p.Line, p.Column = d.places[at].line, d.places[at].column
	return p
}

// parent cuts the last key or index off a path.
func parent(path string) string {
	return path[:max(0, strings.LastIndexAny(path, ".["))]
}

// join appends a key to a path.
func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// nearest returns the known key that is most like the given one, or "" where none is.
func nearest(key string, known []string) string {
	best, limit := "", max(1, min(3, (len(key)+3)/3))
	for _, k := range known {
		if d := distance(key, k); d <= limit {
			best, limit = k, d-1
		}
	}
	return best
}

// distance is the number of single-character edits between two keys.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
