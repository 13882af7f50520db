package safety_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/threadmill/threadmill/engine/safety"
)

// tree makes a folder "in" that is allowed, one "out" that is not, and links.
func tree(t *testing.T) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir()) // on macOS the temporary directory is behind a link
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(
		os.MkdirAll(filepath.Join(root, "in", "project"), 0o700),
		os.MkdirAll(filepath.Join(root, "in-sight"), 0o700),
		os.MkdirAll(filepath.Join(root, "out"), 0o700),
		os.WriteFile(filepath.Join(root, "in", "file"), nil, 0o600),
		os.Symlink(filepath.Join(root, "out"), filepath.Join(root, "in", "escape")),
		os.Symlink("project", filepath.Join(root, "in", "inside")),
		os.Symlink(filepath.Join(root, "in"), filepath.Join(root, "alias")),
		os.Symlink("nowhere", filepath.Join(root, "in", "dangling")),
		os.Symlink("loop", filepath.Join(root, "in", "loop")),
	)
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func TestWorkingDir(t *testing.T) {
	t.Parallel()
	root := tree(t)
	in := filepath.Join(root, "in")
	for name, c := range map[string]struct {
		path, want string
		allowed    []string
	}{
		"the folder itself":    {in, in, []string{in}},
		"below it":             {in + "/project", in + "/project", []string{in}},
		"trailing slash":       {in + "/project/", in + "/project", []string{in + "/"}},
		"a link that stays in": {in + "/inside", in + "/project", []string{in}},
		"an allowed link":      {in + "/project", in + "/project", []string{root + "/alias"}},
		"through a link":       {root + "/alias/project", in + "/project", []string{in}},
		"everything":           {in, in, []string{"/"}},
		"one of several":       {in, in, []string{root + "/none", root + "/out", in}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := safety.WorkingDir(c.path, c.allowed)
			if err != nil || got != c.want {
				t.Errorf("got %s, %v, want %s", got, err, c.want)
			}
		})
	}
}

func TestWorkingDirRefuses(t *testing.T) {
	t.Parallel()
	root := tree(t)
	in := filepath.Join(root, "in")
	for name, c := range map[string]struct {
		path, want string
		allowed    []string
	}{
		"empty":                {"", "is empty", []string{in}},
		"relative":             {"project", "is not absolute", []string{in}},
		"tilde":                {"~/project", "is not absolute", []string{in}},
		"dots":                 {in + "/../out", `contains ".."`, []string{in}},
		"dots that stay in":    {in + "/project/..", `contains ".."`, []string{in}},
		"NUL":                  {in + "\x00", "holds a NUL byte", []string{in}},
		"missing":              {in + "/none", "does not exist", []string{in}},
		"a file":               {in + "/file", "is not a directory", []string{in}},
		"below a file":         {in + "/file/x", "cannot be resolved", []string{in}},
		"outside":              {root + "/out", "is outside of engine.allowed_working_dirs", []string{in}},
		"above":                {root, "is outside", []string{in}},
		"a link out":           {in + "/escape", "(in truth \"" + root + "/out\") is outside", []string{in}},
		"same beginning":       {root + "/in-sight", "is outside", []string{in}},
		"dangling link":        {in + "/dangling", "does not exist", []string{in}},
		"a loop":               {in + "/loop", "cannot be resolved", []string{in}},
		"nothing allowed":      {in, "names no directory", nil},
		"relative allowance":   {in, "is outside", []string{".", ""}},
		"allowance is missing": {in, "is outside", []string{root + "/none"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := safety.WorkingDir(c.path, c.allowed)
			var e *safety.Error
			if !errors.As(err, &e) || e.Field != "working_dir" || !strings.Contains(err.Error(), c.want) || got != "" {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
			if e != nil && e.Missing != errors.Is(err, fs.ErrNotExist) {
				t.Errorf("missing, but no fs.ErrNotExist: %v", err)
			}
		})
	}
}

func TestLookPath(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	err := errors.Join(
		os.MkdirAll(filepath.Join(root, "first", "tool"), 0o700), // a folder of the program's name is passed over
		os.MkdirAll(filepath.Join(root, "second"), 0o700),
		os.WriteFile(filepath.Join(root, "first", "text"), nil, 0o600),
		os.WriteFile(filepath.Join(root, "second", "tool"), nil, 0o700),
	)
	if err != nil {
		t.Fatal(err)
	}
	path := root + "/first:" + root + "/second:relative:"
	for name, c := range map[string]struct{ binary, want, problem string }{
		"in PATH":          {"tool", root + "/second/tool", ""},
		"absolute":         {root + "/second/tool", root + "/second/tool", ""},
		"relative to dir":  {"./second/tool", root + "/second/tool", ""},
		"not there":        {"none", "", `the program "none" was not found; install it or add its directory to PATH (` + path + ")"},
		"not executable":   {"text", "", `the program "` + root + `/first/text" is not executable`},
		"absolute, absent": {root + "/none", "", "does not exist"},
		"a folder":         {root + "/first", "", "is a directory"},
		"empty":            {"", "", "names no program"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := safety.LookPath(c.binary, path, root)
			if got != c.want || (err == nil) != (c.problem == "") || err != nil && !strings.Contains(err.Error(), c.problem) {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}
