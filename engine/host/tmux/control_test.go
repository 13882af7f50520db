package tmux

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// unquote reads a line as tmux's parser does, as far as its manual describes it:
// words between blanks, single quotes in which everything stands for itself, and
// outside of them a backslash with three octal digits or a character.
func unquote(line string) (words []string, ok bool) {
	var word []byte
	in, quoted := false, false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case quoted && c == '\'':
			quoted = false
		case quoted:
			word = append(word, c)
		case c == '\'':
			in, quoted = true, true
		case c == ' ':
			if in {
				words = append(words, string(word))
			}
			in, word = false, nil
		case c == '\\' && i+3 < len(line) && line[i+1] >= '0' && line[i+1] <= '3':
			word = append(word, (line[i+1]-'0')<<6|(line[i+2]-'0')<<3|(line[i+3]-'0'))
			i += 3
		case c == '\\' && i+1 < len(line):
			i++
			word = append(word, line[i])
		default:
			return nil, false // quote leaves nothing else outside of quotes
		}
	}
	if in {
		words = append(words, string(word))
	}
	return words, !quoted
}

func FuzzQuote(f *testing.F) {
	for _, s := range []string{"", "a b", "it's", "a\nb", "\r", `\`, "ä", "\xff"} {
		f.Add(s, s+"x")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		line := quote([]string{a, b})
		if strings.ContainsAny(line, "\r\n") {
			t.Errorf("%q has a line end", line)
		}
		if got, ok := unquote(line); !ok || !cmp.Equal(got, []string{a, b}) {
			t.Errorf("%q is read as %q", line, got)
		}
	})
}

func TestReadBlock(t *testing.T) {
	t.Parallel()
	stream := "%begin 1 10 0\n%end 1 10 0\n%sessions-changed\n" +
		"%begin 1 11 1\none\n%end 1 12 1\n%sessions-changed\n\n%end 1 11 1\n" +
		"%window-add @1\n%begin 1 13 1\nno such session\n%error 1 13 1\n%exit\n"
	want := []block{
		{},
		{ours: true, lines: []string{"one", "%end 1 12 1", "%sessions-changed", ""}},
		{ours: true, failed: true, lines: []string{"no such session"}},
	}
	r := bufio.NewReaderSize(strings.NewReader(stream), 16)
	for i, w := range want {
		got, err := readBlock(r)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(w, got, cmp.AllowUnexported(block{})); diff != "" {
			t.Errorf("block %d (-want +got):\n%s", i, diff)
		}
	}
	if _, err := readBlock(r); err != io.EOF { //nolint:errorlint // as it is
		t.Errorf("at the end: %v", err)
	}
}

func TestLongLinesAndAnswersAreRefused(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxLine+1)
	for name, stream := range map[string]string{
		"a line":        "%begin 1 1 1\n" + long + "\n%end 1 1 1\n",
		"a note":        long + long,
		"several lines": "%begin 1 1 1\n" + strings.Repeat(long[:1000]+"\n", 1100) + "%end 1 1 1\n",
	} {
		if _, err := readBlock(bufio.NewReader(strings.NewReader(stream))); err == nil || err == io.EOF { //nolint:errorlint // as it is
			t.Errorf("%s without bound was read: %v", name, err)
		}
	}
}

func FuzzReadBlock(f *testing.F) {
	f.Add([]byte("%begin 1 2 1\nx\n%end 1 2 1\n"))
	f.Add([]byte("%begin\n%end\n%begin 1 2 1\n%error 1 2 1"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		r := bufio.NewReader(bytes.NewReader(stream))
		for range len(stream) + 1 {
			b, err := readBlock(r)
			if err != nil {
				return
			}
			for _, line := range b.lines {
				if strings.Contains(line, "\n") {
					t.Errorf("line %q has an end in it", line)
				}
			}
		}
		t.Error("more blocks than bytes")
	})
}

func TestNumber(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]float64{"3.3a": 3.3, "next-3.5": 3.5, "2.9": 2.9, "3.0-rc5": 3, "openbsd-7.4": 0, "master": 0} {
		if got, ok := number(version); got != want || ok != (want != 0) {
			t.Errorf("%s is read as %v, %v", version, got, ok)
		}
	}
}

func TestTailBufferKeepsTheEnd(t *testing.T) {
	t.Parallel()
	var b tailBuffer
	for range 100 {
		_, _ = b.Write([]byte("some words and a line end\n"))
	}
	_, _ = b.Write([]byte("the last words\n"))
	got := b.String()
	if len(got) > 1024 || !strings.HasSuffix(got, "the last words") || !utf8.ValidString(got) {
		t.Errorf("kept %d bytes: %q", len(got), got)
	}
}

// Where there is no control client, every command is a process; the answers are the
// same.
func TestWithoutControlClient(t *testing.T) {
	t.Parallel()
	path, err := exec.LookPath("tmux")
	if err != nil {
		t.Fatal("tmux is needed; `make test` installs it, or: apt-get install tmux")
	}
	dir, err := os.MkdirTemp("", "tm") //nolint:usetesting // TempDir's paths are too long for sockets
	if err != nil {
		t.Fatal(err)
	}
	s := New(Options{Path: path, Dir: dir, Timeout: 30 * time.Second, Logger: slog.New(slog.DiscardHandler)})
	if err := writeConfig(s.config); err != nil {
		t.Fatal(err)
	}
	s.bare = time.Now().Add(time.Hour)
	t.Cleanup(func() {
		_, _ = s.once(context.WithoutCancel(t.Context()), []string{"kill-server"})
		s.Close()
		_ = os.RemoveAll(dir)
	})
	if _, err := s.Sessions(t.Context()); !errors.Is(err, ErrUnavailable) {
		t.Errorf("without a server: %v", err)
	}
	argv := []string{"/bin/sh", "-c", "exec cat", ";", "a;"}
	for range 2 {
		if err := s.NewSession(t.Context(), "one", "1", argv); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := s.Sessions(t.Context()); err != nil || !cmp.Equal(got, map[string]bool{"one": true}) {
		t.Errorf("sessions %v, error %v", got, err)
	}
	if there, err := s.HasSession(t.Context(), "on"); err != nil || there {
		t.Errorf("part of a name is a session: %v, error %v", there, err)
	}
	if err := s.KillSession(t.Context(), "none"); err != nil {
		t.Error(err)
	}
}
