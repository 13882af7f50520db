package redact_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/threadmill/threadmill/engine/redact"
)

func TestText(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		secrets  []string
		in, want string
	}{
		"nothing known":            {nil, "token", "token"},
		"too short to mask":        {[]string{"", "abc"}, "abc", "abc"},
		"shortest":                 {[]string{"abcd"}, "xabcdx", "x[masked]x"},
		"whole text":               {[]string{"s3cret"}, "s3cret", "[masked]"},
		"empty text":               {[]string{"s3cret"}, "", ""},
		"several":                  {[]string{"alpha", "beta1"}, "alpha beta1 alpha", "[masked] [masked] [masked]"},
		"side by side":             {[]string{"abcd"}, "abcdabcd", "[masked][masked]"},
		"one begins another":       {[]string{"secret", "secret-long"}, "secret secret-long secret-lo", "[masked] [masked] [masked]-lo"},
		"one within another":       {[]string{"token", "my-token-1"}, "my-token-1 token", "[masked] [masked]"},
		"overlapping":              {[]string{"abcdef", "defghi"}, "xabcdefghix", "x[masked]x"},
		"overlapping itself":       {[]string{"aaaa"}, "aaaaaaa", "[masked]"},
		"a chain":                  {[]string{"abab", "baba"}, "ababababab!", "[masked]!"},
		"two lines":                {[]string{"top\nbottom"}, "top\nbottom top bottom", "[masked] top bottom"},
		"two lines, as JSON":       {[]string{"top\nbottom"}, `"top\nbottom"`, `"[masked]"`},
		"two lines, as JSON twice": {[]string{"top\nbottom"}, `"{\"k\":\"top\\nbottom\"}"`, `"{\"k\":\"[masked]\"}"`},
		"quotes, as JSON":          {[]string{`a"b"c`}, `a\"b\"c a"b"c`, "[masked] [masked]"},
		"HTML, as JSON":            {[]string{"<a&b>"}, `\u003ca\u0026b\u003e <a&b>`, "[masked] [masked]"},
		"unicode, as ASCII":        {[]string{"ключ😀"}, `"\u043a\u043b\u044e\u0447\ud83d\ude00"`, `"[masked]"`},
		"a slash, as JSON":         {[]string{"ab/cd"}, `ab\/cd ab\\/cd`, "[masked] [masked]"},
		"unicode":                  {[]string{"пароль"}, "это пароль!", "это [masked]!"},
		"read from a file":         {[]string{"from-file\n"}, "x from-file y", "x [masked] y"},
		"only line ends":           {[]string{"\n\n\n\n"}, "a\n\n\n\nb", "a[masked]b"},
		"the mask is a secret":     {[]string{"mask"}, "mask [masked]", "[masked] [[masked]ed]"},
		"longer than the window":   {[]string{strings.Repeat("k", 300)}, strings.Repeat("k", 299) + "x" + strings.Repeat("k", 300), strings.Repeat("k", 299) + "x[masked]"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := redact.New(tt.secrets)
			if diff := cmp.Diff(tt.want, m.Text(tt.in)); diff != "" {
				t.Errorf("Text (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.want, string(m.Bytes([]byte(tt.in)))); diff != "" {
				t.Errorf("Bytes (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.want, byteByByte(m, tt.in)); diff != "" {
				t.Errorf("one byte at a time (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBytesReturnsItsInputWhereNothingMatches(t *testing.T) {
	t.Parallel()
	in := []byte("nothing to see here")
	for _, m := range []*redact.Masker{nil, redact.New([]string{"secret"})} {
		if got := m.Bytes(in); &got[0] != &in[0] {
			t.Errorf("Bytes copied its input")
		}
	}
}

func TestBytesLeavesItsInputAlone(t *testing.T) {
	t.Parallel()
	in := []byte("a secret here")
	redact.New([]string{"secret"}).Bytes(in)
	if string(in) != "a secret here" {
		t.Errorf("Bytes changed its input to %q", in)
	}
}

func TestJSONOfASecretIsMasked(t *testing.T) {
	t.Parallel()
	for _, secret := range []string{"pass\tword", `c:\keys\"x"`, "-----BEGIN\nAAAA\n-----END\n", "a\u2028b<c>", "\x00\x01\xff\xfe"} {
		m := redact.New([]string{secret})
		once, _ := json.Marshal(map[string]string{"k": secret})
		twice, _ := json.Marshal(map[string]string{"k": string(once)})
		for _, doc := range [][]byte{once, twice} {
			if masked := m.Bytes(doc); !bytes.Contains(masked, []byte(redact.Mask)) || !json.Valid(masked) {
				t.Errorf("secret %q in %s became %s", secret, doc, masked)
			}
		}
	}
}

func TestSecretIsFoundWhereverItStands(t *testing.T) {
	t.Parallel()
	secrets := []string{"tok1", "ghp_0123456789abcdef", strings.Repeat("long-", 100)}
	m := redact.New(secrets)
	for _, secret := range secrets {
		for before := range 70 {
			in := strings.Repeat("-", before) + secret + strings.Repeat("-", before%7)
			want := strings.Repeat("-", before) + redact.Mask + strings.Repeat("-", before%7)
			if got := m.Text(in); got != want {
				t.Fatalf("Text(%q) = %q", in, got)
			}
		}
	}
}

func BenchmarkBytes(b *testing.B) {
	for name, text := range texts() {
		for _, secrets := range [][]string{tokens(1), tokens(10), tokens(100), append(tokens(10), "pass")} {
			b.Run(fmt.Sprintf("%s/%d", name, len(secrets)), func(b *testing.B) {
				m := redact.New(secrets)
				b.SetBytes(int64(len(text)))
				b.ReportAllocs()
				for b.Loop() {
					m.Bytes(text)
				}
			})
		}
	}
}

func BenchmarkStream(b *testing.B) {
	text := texts()["log"]
	for _, size := range []int{100, 64 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			s := redact.New(tokens(10)).Stream()
			chunk, out := text[:size], make([]byte, 0, 2*size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				out = s.Write(out[:0], chunk)
			}
		})
	}
}

func BenchmarkNew(b *testing.B) {
	secrets := tokens(10)
	for b.Loop() {
		redact.New(secrets)
	}
}

func texts() map[string][]byte {
	log := bytes.Repeat([]byte("2026-01-02T15:04:05Z INFO request handled path=/api/executions status=200 bytes=5120 took=1.25ms\n"), 1024)
	random := make([]byte, 96<<10)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range random {
		random[i] = byte(rng.Uint32())
	}
	return map[string][]byte{"log": log, "random": random}
}

// tokens returns secrets as they are in the wild.
func tokens(n int) []string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	prefixes := []string{"sk-ant-", "ghp_", "xoxb-", "AKIA", ""}
	rng := rand.New(rand.NewPCG(3, 4))
	all := make([]string, n)
	for i := range all {
		token := []byte(prefixes[i%len(prefixes)])
		for range 20 + rng.IntN(40) {
			token = append(token, letters[rng.IntN(len(letters))])
		}
		all[i] = string(token)
	}
	return all
}
