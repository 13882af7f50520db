package redact_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/threadmill/threadmill/engine/redact"
)

func byteByByte(m *redact.Masker, in string) string {
	s, out := m.Stream(), []byte(nil)
	for i := range len(in) {
		out = s.Write(out, []byte{in[i]})
	}
	return string(s.Flush(out))
}

func TestStreamMasksASecretCutAnywhere(t *testing.T) {
	t.Parallel()
	const secret, in = "hunter2-hunter3", "my hunter2-hunter3 is hunter2-hunter2-hunter3."
	m := redact.New([]string{secret})
	for i := range len(in) + 1 {
		for j := i; j <= len(in); j++ {
			s := m.Stream()
			out := s.Write(nil, []byte(in[:i]))
			out = s.Write(out, []byte(in[i:j]))
			out = s.Write(out, []byte(in[j:]))
			if got := string(s.Flush(out)); got != "my [masked] is hunter2-[masked]." {
				t.Fatalf("cut at %d and %d: %q", i, j, got)
			}
		}
	}
}

func TestStreamHoldsBackOnlyWhatItMust(t *testing.T) {
	t.Parallel()
	s := redact.New([]string{"secret", "cretaceous"}).Stream()
	steps := []struct{ in, out string }{
		{"hello", "hello"},
		{" se", " "},
		{"a", "sea"},
		{"secre", ""},
		{"t", redact.Mask}, // its end may begin the other one, but a mask is out
		{"ac", ""},
		{"eous!", "!"},
		{"secr", ""},
	}
	for _, step := range steps {
		if got := string(s.Write(nil, []byte(step.in))); got != step.out {
			t.Fatalf("after %q: got %q, want %q", step.in, got, step.out)
		}
	}
	if got := string(s.Flush(nil)); got != "secr" {
		t.Errorf("Flush = %q", got)
	}
	if got := string(s.Write(nil, []byte("et"))); got != "et" {
		t.Errorf("after Flush the text went on: %q", got)
	}
}

func TestStreamWithoutSecretsPassesAllAtOnce(t *testing.T) {
	t.Parallel()
	s := redact.New(nil).Stream()
	if got := string(s.Write([]byte("a"), []byte("b"))); got != "ab" {
		t.Errorf("Write = %q", got)
	}
	if got := string(s.Flush([]byte("c"))); got != "c" {
		t.Errorf("Flush = %q", got)
	}
}

func FuzzStream(f *testing.F) {
	f.Add("secret\x00secret-long", "a secret and a secret-lo", []byte{1, 2, 3})
	f.Add("abcdef\x00defghi\x00aaaa", "abcdefghiaaaaaaabcdef", []byte{0, 5, 1})
	f.Add("a\"b\nc\x00пароль", `"a\"b\nc" пароль`, []byte{7})
	f.Add("mask\x00ked]", "[masked] mask", []byte{3, 3})
	f.Fuzz(func(t *testing.T, joined, text string, cuts []byte) {
		secrets := strings.Split(joined, "\x00")
		m := redact.New(secrets)
		want := m.Bytes([]byte(text))
		if naive := naiveMask(secrets, text); string(want) != naive {
			t.Fatalf("secrets %q in %q: Bytes = %q, naive search = %q", secrets, text, want, naive)
		}
		if got := stream(m, text, cuts); !bytes.Equal(got, want) {
			t.Fatalf("secrets %q in %q cut %v: stream = %q, whole = %q", secrets, text, cuts, got, want)
		}
		for piece := range strings.SplitSeq(string(want), redact.Mask) {
			for _, secret := range secrets {
				if len(secret) >= 4 && strings.Contains(piece, secret) {
					t.Fatalf("secret %q is still in %q", secret, want)
				}
			}
		}
	})
}

func stream(m *redact.Masker, text string, cuts []byte) []byte {
	s, out, rest := m.Stream(), []byte(nil), []byte(text)
	for _, cut := range cuts {
		n := min(int(cut), len(rest))
		chunk := bytes.Clone(rest[:n])
		out = s.Write(out, chunk)
		clear(chunk) // a stream must not keep what it was given
		rest = rest[n:]
	}
	return s.Flush(s.Write(out, rest))
}

// naiveMask says what masking means, without any cleverness.
func naiveMask(secrets []string, text string) string {
	var out strings.Builder
	end, copied := -1, 0
	for i := range len(text) {
		if n := longestAt(secrets, text[i:]); n > 0 {
			if i >= end {
				out.WriteString(text[copied:i] + redact.Mask)
			}
			end = max(end, i+n)
			copied = end
		}
	}
	return out.String() + text[copied:]
}

func longestAt(secrets []string, text string) int {
	longest := 0
	for _, p := range redact.Patterns(secrets) {
		if strings.HasPrefix(text, p) {
			longest = max(longest, len(p))
		}
	}
	return longest
}
