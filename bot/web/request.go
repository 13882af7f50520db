package web

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/threadmill/threadmill/engine"
)

// maxBody bounds what a client may send; ReadTimeout of [Server.Serve] bounds how long.
const maxBody = 1 << 20

// actor names who makes a request. Whoever has the token is the one user "web".
func actor(*http.Request) string { return "web" }

// readBody decodes a request's body into v and refuses what v does not know. With
// optional, no body at all leaves v as it is.
func readBody(r *http.Request, v any, optional bool) error {
	body := bufio.NewReader(http.MaxBytesReader(nil, r.Body, maxBody))
	if _, err := body.Peek(1); optional && errors.Is(err, io.EOF) {
		return nil
	}
	if err := checkType(r); err != nil {
		return err
	}
	dec := json.NewDecoder(body)
	dec.DisallowUnknownFields()
	dec.UseNumber() // a large integer in args must arrive as it was written
	if err := dec.Decode(v); err != nil {
		return bodyError(err)
	}
	switch _, err := dec.Token(); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return bodyError(err)
	}
	return engine.Errorf(engine.CodeInvalid, "the body holds more than one JSON value")
}

func checkType(r *http.Request) error {
	given := r.Header.Get("Content-Type")
	typ, params, err := mime.ParseMediaType(given)
	charset := params["charset"]
	if err != nil || typ != "application/json" || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return statusErrorf(http.StatusUnsupportedMediaType, engine.CodeInvalid,
			"the body has the content type %q: send application/json", given)
	}
	return nil
}

// bodyError turns a decoder's error into one for the person who wrote the body.
func bodyError(err error) error {
	var (
		tooBig  *http.MaxBytesError
		syntax  *json.SyntaxError
		typeErr *json.UnmarshalTypeError
	)
	switch {
	case errors.As(err, &tooBig):
		return statusErrorf(http.StatusRequestEntityTooLarge, engine.CodeInvalid, "the body is larger than %d bytes", tooBig.Limit)
	case errors.As(err, &syntax):
		return engine.Errorf(engine.CodeInvalid, "the body is not JSON: at byte %d: %w", syntax.Offset, err)
	case errors.As(err, &typeErr):
		return engine.Errorf(engine.CodeInvalid, "%s: expected %s, got %s", part(typeErr.Field), jsonName(typeErr), typeErr.Value)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return engine.Errorf(engine.CodeInvalid, "the body ends before its JSON does")
	}
	if field, found := strings.CutPrefix(err.Error(), "json: unknown field "); found {
		return engine.Errorf(engine.CodeInvalid, "unknown field %s", field)
	}
	return engine.Errorf(engine.CodeInvalid, "the body cannot be read: %w", err)
}

// jsonName is the JSON type that a Go type is read from.
// part names what of a body a problem is about.
func part(field string) string {
	if field == "" {
		return "the body"
	}
	return "field " + strconv.Quote(field)
}

func jsonName(e *json.UnmarshalTypeError) string {
	switch e.Type.Kind().String() {
	case "map", "struct":
		return "an object"
	case "slice":
		return "an array"
	case "bool":
		return "true or false"
	case "string":
		return "a string"
	}
	return "a number"
}

// query reads a request's parameters. The first problem is kept; a parameter that
// nobody asked for is one too, since a misspelt filter would select everything.
type query struct {
	values url.Values
	err    error
}

func readQuery(r *http.Request) *query {
	values, err := url.ParseQuery(r.URL.RawQuery)
	q := &query{values: values}
	if err != nil {
		q.problem("the query cannot be read: %w", err)
	}
	return q
}

func (q *query) problem(format string, args ...any) {
	if q.err == nil {
		q.err = engine.Errorf(engine.CodeInvalid, format, args...)
	}
}

// all takes every value of a parameter, repeated or separated by commas.
func (q *query) all(name string) []string {
	var out []string
	for _, v := range q.values[name] {
		out = append(out, strings.FieldsFunc(v, func(r rune) bool { return r == ',' })...)
	}
	delete(q.values, name)
	return out
}

// text takes a parameter that may be given once.
func (q *query) text(name string) string {
	v := q.values[name]
	delete(q.values, name)
	switch len(v) {
	case 0:
		return ""
	case 1:
		return v[0]
	}
	q.problem("parameter %q is given %d times", name, len(v))
	return ""
}

// oneOf takes a parameter that has to be one of some words; the first is the default.
func (q *query) oneOf(name string, words ...string) string {
	v := q.text(name)
	switch {
	case v == "":
		return words[0]
	case slices.Contains(words, v):
		return v
	}
	q.problem("parameter %q is %q: it can be %s", name, v, strings.Join(words, ", "))
	return words[0]
}

// number takes a whole number between low and high.
func (q *query) number(name string, standard, low, high int64) int64 {
	v := q.text(name)
	if v == "" {
		return standard
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < low || n > high {
		q.problem("parameter %q is %q: it is a whole number from %d to %d", name, v, low, high)
		return standard
	}
	return n
}

// maxPage keeps page × pageSize far from overflow.
const maxPage = 1_000_000

// page takes the parameters of a page.
func (q *query) page() (page, size int) {
	return int(q.number("page", 1, 1, maxPage)), int(q.number("pageSize", 50, 1, 200))
}

// done returns the first problem.
func (q *query) done() error {
	for _, name := range slices.Sorted(maps.Keys(q.values)) {
		q.problem("unknown parameter %q", name)
	}
	return q.err
}
