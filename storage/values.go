package storage

import (
	"bytes"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// The types of this file sit between a field and its column, in both directions, so
// that one list of fields serves SELECT and INSERT.

// moment keeps a time as nanoseconds since 1970, UTC; the zero time is 0.
type moment struct{ t *time.Time }

// Value returns what is stored.
func (m moment) Value() (driver.Value, error) {
	if m.t.IsZero() {
		return int64(0), nil
	}
	return m.t.UnixNano(), nil
}

// Scan reads what was stored.
func (m moment) Scan(src any) error {
	n, ok := src.(int64)
	if !ok {
		return fmt.Errorf("a time is stored as %T", src)
	}
	*m.t = time.Time{}
	if n != 0 {
		*m.t = time.Unix(0, n).UTC()
	}
	return nil
}

// maybe keeps a time that may be absent.
type maybe struct{ t **time.Time }

// Value returns what is stored.
func (m maybe) Value() (driver.Value, error) {
	if *m.t == nil {
		return nil, nil //nolint:nilnil // NULL
	}
	return moment{*m.t}.Value()
}

// Scan reads what was stored.
func (m maybe) Scan(src any) error {
	*m.t = nil
	if src == nil {
		return nil
	}
	*m.t = new(time.Time)
	return moment{*m.t}.Scan(src)
}

// nullable keeps a string whose column is NULL when it is empty.
type nullable struct{ s *string }

// Value returns what is stored.
func (n nullable) Value() (driver.Value, error) {
	if *n.s == "" {
		return nil, nil //nolint:nilnil // NULL
	}
	return *n.s, nil
}

// Scan reads what was stored.
func (n nullable) Scan(src any) error {
	*n.s = ""
	if src == nil {
		return nil
	}
	s, ok := src.(string)
	if !ok {
		return fmt.Errorf("a text is stored as %T", src)
	}
	*n.s = s
	return nil
}

// document keeps a value as JSON.
type document struct{ v any }

// Value returns what is stored.
func (d document) Value() (driver.Value, error) {
	b, err := json.Marshal(d.v)
	return string(b), err
}

// Scan reads what was stored.
func (d document) Scan(src any) error {
	s, ok := src.(string)
	if !ok {
		return fmt.Errorf("a document is stored as %T", src)
	}
	return json.Unmarshal([]byte(s), d.v)
}

// object keeps a map of free values as JSON, whole numbers exact: through a float64
// an identifier of 17 digits would come back as another one.
type object struct{ m *map[string]any }

// Value returns what is stored.
func (o object) Value() (driver.Value, error) { return document{*o.m}.Value() }

// Scan reads what was stored.
func (o object) Scan(src any) error {
	s, ok := src.(string)
	if !ok {
		return fmt.Errorf("an object is stored as %T", src)
	}
	*o.m = nil
	d := json.NewDecoder(bytes.NewReader([]byte(s)))
	d.UseNumber()
	if err := d.Decode(o.m); err != nil {
		return err
	}
	for k, v := range *o.m {
		(*o.m)[k] = exact(v)
	}
	return nil
}

// exact turns the numbers in v into int64 where that loses nothing, else float64.
func exact(v any) any {
	switch v := v.(type) {
	case json.Number:
		return number(v)
	case map[string]any:
		for k := range v {
			v[k] = exact(v[k])
		}
	case []any:
		for i := range v {
			v[i] = exact(v[i])
		}
	}
	return v
}

func number(n json.Number) any {
	if i, err := n.Int64(); err == nil && strconv.FormatInt(i, 10) == n.String() { // not -0
		return i
	}
	if f, err := n.Float64(); err == nil {
		return f
	}
	return n // too large for either: kept as it was written
}
