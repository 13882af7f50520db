// Package safety decides what may reach a program: the directory it works in, the
// environment it sees, the arguments it gets. Everything here fails closed: what is
// not known to be harmless is refused, with an [Error] that names the field, the
// reason and what would be accepted.
//
// The package is pure apart from looking at the file system. It knows neither
// executions nor configuration files nor chat, and it never sees a shell.
package safety

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// Error is something that was refused, fit for a user to read.
type Error struct {
	Field   string // what it is about: an argument's name, "working_dir", "command", …
	Message string // the reason, and what to do
	Missing bool   // the thing named does not exist, as opposed to: may not be used
}

// Error returns the field and the message.
func (e *Error) Error() string {
	if e.Field == "" {
		return e.Message
	}
	return e.Field + ": " + e.Message
}

// Is makes what is missing an fs.ErrNotExist for errors.Is.
func (e *Error) Is(target error) bool { return e.Missing && target == fs.ErrNotExist }

// Errors is everything that was refused at once.
type Errors []*Error

// Error lists all problems on one line.
func (es Errors) Error() string {
	texts := make([]string, len(es))
	for i, e := range es {
		texts[i] = e.Error()
	}
	return strings.Join(texts, "; ")
}

// Unwrap returns the single problems, for errors.As.
func (es Errors) Unwrap() []error {
	out := make([]error, len(es))
	for i, e := range es {
		out[i] = e
	}
	return out
}

// orNil returns the problems in the order of their fields, or nil where there are none.
func (es Errors) orNil() error {
	if len(es) == 0 {
		return nil
	}
	slices.SortStableFunc(es, func(a, b *Error) int { return cmp.Compare(a.Field, b.Field) })
	return slices.CompactFunc(es, func(a, b *Error) bool { return *a == *b })
}

func refuse(field, format string, args ...any) *Error {
	return &Error{Field: field, Message: fmt.Sprintf(format, args...)}
}

// shown is a value as error messages quote it: escaped and of bounded length.
func shown(s string) string {
	const limit = 80
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "") + "…"
	}
	return strconv.Quote(s)
}
