package demo

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAppendDiff(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, before, want string
		existed            bool
	}{
		{"new file", "", "--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+new\n", false},
		{"empty file", "", "--- a/f\n+++ b/f\n@@ -0,0 +1 @@\n+new\n", true},
		{"one line", "a\n", "--- a/f\n+++ b/f\n@@ -1 +1,2 @@\n a\n+new\n", true},
		{"many lines", "a\nb\nc\nd\ne\n", "--- a/f\n+++ b/f\n@@ -3,3 +3,4 @@\n c\n d\n e\n+new\n", true},
		{"unfinished line", "a\nb", "--- a/f\n+++ b/f\n@@ -1,2 +1,3 @@\n a\n-b\n\\ No newline at end of file\n+b\n+new\n", true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, appendDiff("f", []byte(c.before), c.existed, "new")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
