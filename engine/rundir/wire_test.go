package rundir_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/redact"
	"github.com/threadmill/threadmill/engine/rundir"
)

type wireLine struct {
	Dir  agent.WireDir   `json:"dir"`
	At   *int64          `json:"t_ms"`
	Line json.RawMessage `json:"line"`
}

func TestWire(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := openWire(t, dir, 0, redact.New([]string{`s"cret`, "12345678", `"bb"`}))
	for in, want := range map[string]string{
		`{"a": [1, "x"]}` + "\r\n":             `{"a":[1,"x"]}`,
		"not JSON \"\n":                        `"not JSON \""`,
		"":                                     `""`,
		`{"a":1} trailing`:                     `"{\"a\":1} trailing"`,
		"\xff{}":                               `"` + "\ufffd" + `{}"`,
		`{"k":"a s\"cret"}`:                    `{"k":"a [masked]"}`,
		`{"k":12345678}`:                       `"{\"k\":[masked]}"`, // no JSON any more
		`{"a":"bb","pretty":` + "\n" + `true}`: `"{\"a\":[masked],\"pretty\":\ntrue}"`,
	} {
		if err := w.Write(agent.WireOut, []byte(in)); err != nil {
			t.Fatal(err)
		}
		lines := readWire(t, dir)
		last := lines[len(lines)-1]
		if diff := cmp.Diff(want, string(last.Line)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", in, diff)
		}
		if last.Dir != agent.WireOut || last.At == nil || *last.At < 0 {
			t.Errorf("%q: %+v", in, last)
		}
	}
	if mode := fileMode(t, dir, rundir.WireFile); mode != 0o600 {
		t.Errorf("mode = %o", mode)
	}
}

func TestWireLimit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := openWire(t, dir, 400, nil)
	for range 50 {
		if err := w.Write(agent.WireIn, []byte(`{"n":1}`)); err != nil {
			t.Fatal(err)
		}
	}
	lines := readWire(t, dir)
	if last := lines[len(lines)-1]; last.Dir != "system" || !strings.Contains(string(last.Line), "ends here") || len(lines) < 5 {
		t.Errorf("%d lines, the last one %+v", len(lines), last)
	}
	if size := fileSize(t, dir, rundir.WireFile); size > 400 {
		t.Errorf("%d bytes", size)
	}
	if again := openWire(t, dir, 1000, nil); again.Write(agent.WireIn, []byte("1")) != nil || len(readWire(t, dir)) != len(lines)+1 {
		t.Error("a record does not go on")
	}
}

func FuzzWire(f *testing.F) {
	f.Add([]byte(`{"a":"b"}`), "a\":\"b")
	f.Add([]byte(`"\u0000`), `u000`)
	f.Fuzz(func(t *testing.T, line []byte, secret string) {
		dir := t.TempDir()
		m := redact.New([]string{secret})
		if err := openWire(t, dir, 0, m).Write(agent.WireIn, line); err != nil {
			t.Fatal(err)
		}
		got := readWire(t, dir)
		if len(got) != 1 {
			t.Fatalf("%q became %d lines", line, len(got))
		}
	})
}

func openWire(t *testing.T, dir string, limit int64, m *redact.Masker) *rundir.WireWriter {
	t.Helper()
	w, err := rundir.OpenWire(filepath.Join(dir, rundir.WireFile), limit, m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

func readWire(t *testing.T, dir string) []wireLine {
	t.Helper()
	var all []wireLine
	for line := range bytes.Lines(readFile(t, dir, rundir.WireFile)) {
		var l wireLine
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		all = append(all, l)
	}
	return all
}
