package proc

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseStat(t *testing.T) {
	t.Parallel()
	const rest = " 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 777 20"
	for name, tc := range map[string]struct {
		line string
		want process
		ok   bool
	}{
		"plain":          {"7 (sh) S" + rest, process{pid: 7, parent: 2, start: "777"}, true},
		"hostile name":   {"7 (a) S 1 (b) Z" + rest, process{pid: 7, parent: 2, start: "777", zombie: true}, true},
		"newline":        {"7 (a\nb) R" + rest + "\n", process{pid: 7, parent: 2, start: "777"}, true},
		"short":          {"7 (sh) S 2 3", process{}, false},
		"no parent":      {"7 (sh) S x" + rest, process{}, false},
		"nothing":        {"", process{}, false},
		"no parentheses": {"7 sh S" + rest + rest, process{}, false},
	} {
		got, err := parseStat(7, []byte(tc.line))
		if (err == nil) != tc.ok || got != tc.want {
			t.Errorf("%s: %s %v", name, cmp.Diff(tc.want, got, cmp.AllowUnexported(process{})), err)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("7 (sh) S 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 777 20"))
	f.Add([]byte("7 () "))
	f.Fuzz(func(t *testing.T, line []byte) {
		p, err := parseStat(7, line)
		if err == nil && (p.pid != 7 || p.start == "") {
			t.Errorf("%q gives %+v", line, p)
		}
	})
}

func TestHasEntry(t *testing.T) {
	t.Parallel()
	block := []byte("A=1\x00B=22\x00\x00C=3")
	for entry, want := range map[string]bool{"A=1": true, "B=22": true, "C=3": true, "B=2": false, "=1": false, "": true} {
		if got := hasEntry(block, []byte(entry)); got != want {
			t.Errorf("%q: %v", entry, got)
		}
	}
}
