package safety

import (
	"os"
	"path/filepath"
	"testing"
)

func TestResolvePath(t *testing.T) {
	t.Parallel()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir, outside := filepath.Join(root, "app"), filepath.Join(root, "secret")
	for _, d := range []string{filepath.Join(dir, "src"), outside} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"out": outside, "dangling": filepath.Join(outside, "new"), "loop": "loop"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		"src":                             filepath.Join(dir, "src"),
		"src/new/file.go":                 filepath.Join(dir, "src/new/file.go"),
		"./src//x":                        filepath.Join(dir, "src/x"),
		filepath.Join(dir, "src"):         filepath.Join(dir, "src"),
		"out/file":                        filepath.Join(outside, "file"),
		"out":                             outside,
		"dangling":                        "",
		"dangling/x":                      "",
		"loop":                            "",
		"src/../src":                      "",
		filepath.Join(dir, "src") + "/..": "",
		"":                                "",
		"a\x00b":                          "",
	} {
		got, ok := ResolvePath(dir, path)
		if ok != (want != "") || ok && got != want {
			t.Errorf("%q is %q, %v, want %q", path, got, ok, want)
		}
	}
	if _, ok := ResolvePath("relative", "x"); ok {
		t.Error("a path was resolved from a relative directory")
	}
}
