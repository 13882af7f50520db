package redact

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Mask is what stands in the place of a secret.
const Mask = "[masked]"

const (
	minSecret = 4   // shorter values would mask ordinary text
	maxWindow = 255 // so that it and a jump fit a byte
)

// Masker knows the values to mask. It is immutable and may be used by many goroutines;
// a nil Masker masks nothing.
//
// All output passes through it, so looking must cost next to nothing where there is no
// secret: the search slides a window as long as the shortest pattern over the text and
// jumps by what the window's last two bytes allow (Wu and Manber), which visits one
// position in a window and not every byte for every secret.
type Masker struct {
	window  uint8                // length of the window
	longest int                  // length of the longest pattern
	jumps   [1 << 16]uint8       // by the window's last two bytes; 0: a pattern may begin here
	starts  [1 << 16 / 64]uint64 // set of the two bytes that begin a pattern
	byHead  map[uint32][][]byte  // patterns by their first four bytes, longest first
}

// New returns a Masker for the values, or nil where none of them can be masked: a value
// under four bytes would hide ordinary text. Each value is also found as the content of
// a JSON string, and of a JSON string within a JSON string.
func New(values []string) *Masker {
	all := patterns(values)
	if len(all) == 0 {
		return nil
	}
	m := &Masker{
		window:  uint8(min(len(all[len(all)-1]), maxWindow)),
		longest: len(all[0]),
		byHead:  make(map[uint32][][]byte, len(all)),
	}
	for i := range m.jumps {
		m.jumps[i] = m.window - 1
	}
	for _, p := range all {
		m.add([]byte(p))
	}
	return m
}

// patterns returns what to look for, without duplicates, longest first.
func patterns(values []string) []string {
	var all []string
	for _, v := range values {
		// A secret read from a file often ends in a newline that its user strips.
		if cut := strings.TrimRight(v, "\r\n"); len(cut) >= minSecret {
			v = cut
		}
		if len(v) >= minSecret {
			all = append(all, forms(v)...)
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	slices.SortStableFunc(all, func(a, b string) int { return len(b) - len(a) })
	return all
}

// forms returns the value as it is and as JSON encoders write it, once and twice: a tool
// result that quotes a JSON document is a string within a string.
func forms(v string) []string {
	all := []string{v}
	for _, once := range encodings(v) {
		if !slices.Contains(all, once) { // mostly it is there: few secrets need escapes
			all = append(append(all, once), encodings(once)...)
		}
	}
	return all
}

// encodings returns how the encoders of agents may write s: Go's with and without regard
// to HTML, those that stay within ASCII, those that escape the slash.
func encodings(s string) []string {
	plain := escape(s, false)
	all := []string{plain, escape(s, true), ascii(plain)}
	for _, e := range all {
		all = append(all, strings.ReplaceAll(e, "/", `\/`))
	}
	return all
}

func ascii(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r < utf8.RuneSelf:
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

func escape(v string, html bool) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(html)
	if enc.Encode(v) != nil {
		return v // cannot happen: any string can be encoded
	}
	return b.String()[1 : b.Len()-2] // without the quotes and the newline
}

func (m *Masker) add(p []byte) {
	for i := range m.window - 1 {
		jump := &m.jumps[binary.LittleEndian.Uint16(p[i:])]
		*jump = min(*jump, m.window-2-i)
	}
	first := binary.LittleEndian.Uint16(p)
	m.starts[first/64] |= 1 << (first % 64)
	head := binary.LittleEndian.Uint32(p)
	m.byHead[head] = append(m.byHead[head], p)
}

// Text returns s with every secret masked.
func (m *Masker) Text(s string) string {
	if m == nil || len(s) < int(m.window) {
		return s
	}
	b := []byte(s)
	if masked := m.Bytes(b); &masked[0] != &b[0] {
		return string(masked)
	}
	return s
}

// Bytes returns b with every secret masked: b itself where there is none, a copy
// otherwise. Secrets that overlap are masked as one, so no part of either shows.
func (m *Masker) Bytes(b []byte) []byte {
	if m == nil {
		return b
	}
	start, end := m.span(b, 0, len(b))
	if start < 0 {
		return b
	}
	out, pos := make([]byte, 0, len(b)+len(Mask)), 0
	for start >= 0 {
		out = append(append(out, b[pos:start]...), Mask...)
		pos = end
		start, end = m.span(b, pos, len(b))
	}
	return append(out, b[pos:]...)
}

// span finds the first secret that begins in b[from:before] and everything that
// overlaps it; start is negative where there is none.
func (m *Masker) span(b []byte, from, before int) (start, end int) {
	start, end = m.next(b, from, before)
	if start >= 0 {
		end = m.extend(b, start+1, end)
	}
	return start, end
}

// extend returns the end of a masked stretch that ends at end so far, taking in all
// secrets that begin in b[from:end].
func (m *Masker) extend(b []byte, from, end int) int {
	for {
		start, e := m.next(b, from, end)
		if start < 0 {
			return end
		}
		from, end = start+1, max(end, e)
	}
}

// next finds the first secret that begins in b[from:before].
func (m *Masker) next(b []byte, from, before int) (start, end int) {
	ahead := int(m.window) - 2 // from a window's beginning to its last two bytes
	stop := min(before+ahead, len(b)-1)
	for i := from + ahead; i < stop; {
		jump := m.jumps[uint16(b[i])|uint16(b[i+1])<<8]
		if jump == 0 {
			if n := m.match(b[i-ahead:]); n > 0 {
				return i - ahead, i - ahead + n
			}
			jump = 1
		}
		i += int(jump)
	}
	return -1, -1
}

// match returns the length of the longest secret that b begins with. b is at least as
// long as the window.
func (m *Masker) match(b []byte) int {
	for _, p := range m.byHead[binary.LittleEndian.Uint32(b)] {
		if bytes.HasPrefix(b, p) {
			return len(p)
		}
	}
	return 0
}

// pending returns the length of the longest end of b that may be the beginning of a
// secret.
func (m *Masker) pending(b []byte) int {
	for i := max(0, len(b)-m.longest+1); i < len(b); i++ {
		if m.begins(b[i:]) {
			return len(b) - i
		}
	}
	return 0
}

// begins reports whether a secret begins with b and is longer than it.
func (m *Masker) begins(b []byte) bool {
	if len(b) >= 2 {
		first := binary.LittleEndian.Uint16(b)
		if m.starts[first/64]&(1<<(first%64)) == 0 {
			return false
		}
	}
	if len(b) >= minSecret {
		return longer(m.byHead[binary.LittleEndian.Uint32(b)], b)
	}
	for _, ps := range m.byHead {
		if longer(ps, b) {
			return true
		}
	}
	return false
}

func longer(patterns [][]byte, b []byte) bool {
	return slices.ContainsFunc(patterns, func(p []byte) bool {
		return len(p) > len(b) && bytes.HasPrefix(p, b)
	})
}
