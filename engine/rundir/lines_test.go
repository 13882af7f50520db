package rundir_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/redact"
	"github.com/threadmill/threadmill/engine/rundir"
)

const maxLine = 1 << 20

func TestLines(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxLine)
	tests := map[string]struct {
		in   []string // "" flushes
		want string
	}{
		"nothing":                    {nil, ""},
		"one line":                   {[]string{"a\n"}, "[stderr] a\n"},
		"empty lines":                {[]string{"\n\n"}, "[stderr] \n[stderr] \n"},
		"held until its end":         {[]string{"a", "b", "c\nd"}, "[stderr] abc\n"},
		"flushed":                    {[]string{"a\nb", ""}, "[stderr] a\n[stderr] b\n"},
		"flushed twice":              {[]string{"b", "", ""}, "[stderr] b\n"},
		"on after a flush":           {[]string{"a", "", "b\n"}, "[stderr] a\n[stderr] b\n"},
		"other bytes":                {[]string{"a\r\n\x00\xff\n"}, "[stderr] a\r\n[stderr] \x00\xff\n"},
		"a secret in pieces":         {[]string{"my hun", "ter2", "\n"}, "[stderr] my [masked]\n"},
		"half a secret at the end":   {[]string{"my hunt", ""}, "[stderr] my hunt\n"},
		"a secret over lines":        {[]string{"x top\nbot", "tom y\n"}, "[stderr] x [masked] y\n"},
		"as long as a line may be":   {[]string{long + "\n"}, "[stderr] " + long + "\n"},
		"its end comes later":        {[]string{long, "\na\n"}, "[stderr] " + long + "\n[stderr] a\n"},
		"longer":                     {[]string{long + "y\n"}, "[stderr] " + long + "\n[stderr] y\n"},
		"longer, in pieces":          {[]string{long, "y", "z\n"}, "[stderr] " + long + "\n[stderr] yz\n"},
		"never ends":                 {[]string{long + long + "y", ""}, "[stderr] " + long + "\n[stderr] " + long + "\n[stderr] y\n"},
		"held, however long it gets": {[]string{long + long}, "[stderr] " + long + "\n"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			out := openLog(t, dir, 0, 0).Stream(agent.Stderr, redact.New([]string{"hunter2", "top\nbottom"}))
			for _, in := range tt.in {
				writeOrFlush(t, out, []byte(in))
			}
			if got := wholeLog(t, dir); got != tt.want {
				t.Errorf("log = %.100q (%d bytes), want %.100q (%d bytes)", got, len(got), tt.want, len(tt.want))
			}
		})
	}
}

func TestStreamsShareALog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := openLog(t, dir, 1000, 0)
	var wg sync.WaitGroup
	for _, s := range []agent.Stream{agent.Stdout, agent.Stderr, agent.System, agent.Stdout} {
		out := w.Stream(s, nil)
		wg.Go(func() {
			for i := range 500 {
				fmt.Fprintf(out, "%s %d\npart", s, i) // cuts lines across those of the others
				fmt.Fprint(out, "s\n")
			}
		})
	}
	wg.Wait()
	count := map[string]int{}
	for line := range strings.Lines(wholeLog(t, dir)) {
		stream, text, _ := strings.Cut(line, " ")
		if text != "parts\n" && !strings.HasPrefix(text, strings.Trim(stream, "[]")+" ") {
			t.Fatalf("torn line %q", line)
		}
		count[stream]++
	}
	if diff := cmp.Diff(map[string]int{"[stdout]": 2000, "[stderr]": 1000, "[system]": 1000}, count); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	if w.Lines() != 4000 {
		t.Errorf("Lines = %d", w.Lines())
	}
}

func TestLineWriterReportsTheLimit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	out := openLog(t, dir, 0, 30).Stream(agent.Stdout, nil)
	if n, err := out.Write([]byte("one\ntwo\nthree\nfour")); n != 18 || !errors.Is(err, rundir.ErrLogLimit) {
		t.Errorf("Write = %d, %v", n, err)
	}
	if err := out.Flush(); !errors.Is(err, rundir.ErrLogLimit) {
		t.Errorf("Flush = %v", err)
	}
	if got := wholeLog(t, dir); got != "[stdout] one\n[stdout] two\n" {
		t.Errorf("log = %q", got)
	}
}

func FuzzLineWriter(f *testing.F) {
	f.Add([]byte("one\ntwo\r\n\nthree secret"), []byte{3, 0, 1, 9}, "secret", uint8(9))
	f.Add([]byte("se\ncr\net\nse\ncret"), []byte{1, 1, 1, 1, 1, 0}, "se\ncr", uint8(0))
	f.Add(bytes.Repeat([]byte("x"), 300), []byte{255, 0}, "xxxx", uint8(1))
	f.Fuzz(func(t *testing.T, text, cuts []byte, secret string, rotate uint8) {
		m := redact.New([]string{secret})
		dir := t.TempDir()
		w := openLog(t, dir, int64(rotate)+1, 0)
		out := w.Stream(agent.Stdout, m)
		want, pending := "", []byte(nil)
		for _, cut := range append(cuts, 255, 0) {
			chunk := text[:min(int(cut), len(text))]
			if cut == 0 {
				want, pending = want+reference(pending, m), nil
			}
			text, pending = text[len(chunk):], append(pending, chunk...)
			writeOrFlush(t, out, chunk)
		}
		want += reference(pending, m)
		writeOrFlush(t, out, nil)
		got := wholeLog(t, dir)
		if got != want {
			t.Fatalf("log = %q, want %q", got, want)
		}
		if w.Bytes() != int64(len(want)) || w.Lines() != int64(strings.Count(want, "\n")) {
			t.Fatalf("counted %d bytes, %d lines of %q", w.Bytes(), w.Lines(), want)
		}
		for name, content := range files(t, dir) {
			if content != "" && !strings.HasSuffix(content, "\n") {
				t.Fatalf("%s ends within a line: %q", name, content)
			}
		}
	})
}

// reference is what text between two flushes looks like in the log.
func reference(text []byte, m *redact.Masker) string {
	var b strings.Builder
	for line := range bytes.Lines(m.Bytes(text)) {
		fmt.Fprintf(&b, "[stdout] %s\n", bytes.TrimSuffix(line, []byte("\n")))
	}
	return b.String()
}

func writeOrFlush(t *testing.T, out *rundir.LineWriter, b []byte) {
	t.Helper()
	var err error
	if len(b) == 0 {
		err = out.Flush()
	} else {
		_, err = out.Write(bytes.Clone(b))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// The consumer of these is a pump with a 256 KiB buffer; producers write as they do.
func BenchmarkLineWriter(b *testing.B) {
	line := []byte("2026-01-02T15:04:05Z INFO request handled path=/api/executions status=200 bytes=5120 took=1.250 ms\n")
	for _, size := range []int{len(line), 64 << 10, 256 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			w, err := rundir.OpenLog(b.TempDir(), 0, 0)
			if err != nil {
				b.Fatal(err)
			}
			defer w.Close()
			out := w.Stream(agent.Stdout, redact.New(secrets()))
			chunk := bytes.Repeat(line, size/len(line)+1)[:size]
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := out.Write(chunk); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
