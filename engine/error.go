package engine

import (
	"errors"
	"fmt"
)

// Code classifies an [Error] for programs; the HTTP API and the exit codes of the
// command line follow from it.
type Code string

// The codes of errors.
const (
	CodeInvalid      Code = "invalid"      // the request makes no sense
	CodeUnauthorized Code = "unauthorized" // who are you
	CodeForbidden    Code = "forbidden"    // you may not
	CodeNotFound     Code = "not_found"    // there is no such thing
	CodeConflict     Code = "conflict"     // not in this state
	CodeUnsupported  Code = "unsupported"  // the agent cannot do that
	CodeUnavailable  Code = "unavailable"  // not now
	CodeInternal     Code = "internal"     // our fault
)

// Error is an error that a user may read: it names the thing, the reason and, where
// somebody must act, the next step. Any other error is internal: it is logged once
// at the edge and shown as a reference.
type Error struct {
	Code    Code
	Message string
	Err     error // the cause, for logs; may be nil
}

// Error returns the message for people.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Errorf makes an [Error]; a %w in format becomes its cause.
func Errorf(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), Err: errors.Unwrap(err)}
}

// CodeOf returns the code of err: that of the [Error] in it, or CodeInternal.
func CodeOf(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return CodeInternal
}
