package client

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

// FuzzReadEvents: whatever a server sends, the reader ends, and what it understood it
// understands again after writing it down.
func FuzzReadEvents(f *testing.F) {
	f.Add([]byte("id: 1\nevent: log\ndata: {}\n\n: hi\n\nevent: done\ndata: 1\ndata: 2\n\n"))
	f.Add([]byte("retry: 5\r\nid\r\ndata\r\n\r\n"))
	f.Add([]byte("event: log\ndata: " + strings.Repeat("x", 200_000) + "\n\n"))
	f.Add([]byte(":::\n\n\n\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		first, err := collect(b)
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatal(err)
		}
		var again bytes.Buffer
		for _, e := range first {
			fmt.Fprintf(&again, "id: %s\nevent: %s\n", e.id, e.name)
			for line := range bytes.SplitSeq(e.data, []byte{'\n'}) {
				fmt.Fprintf(&again, "data: %s\n", line)
			}
			again.WriteByte('\n')
		}
		second, _ := collect(again.Bytes())
		if len(first) != len(second) {
			t.Fatalf("%d events became %d", len(first), len(second))
		}
		for i := range first {
			if first[i].id != second[i].id || first[i].name != second[i].name {
				t.Fatalf("%+v became %+v", first[i], second[i])
			}
		}
	})
}

func collect(b []byte) (all []event, err error) {
	err = readEvents(bytes.NewReader(b), func(e event) error {
		e.data = bytes.Clone(e.data)
		all = append(all, e)
		return nil
	})
	return all, err
}

func TestAnEventIsBounded(t *testing.T) {
	t.Parallel()
	endless := io.MultiReader(strings.NewReader("data: "), &zeros{})
	if err := readEvents(endless, func(event) error { return nil }); !errors.Is(err, errTooLarge) {
		t.Errorf("got %v", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}
