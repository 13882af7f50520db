package safety

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const fieldDir = "working_dir"

// WorkingDir checks that a program may work in path and returns it with all
// symbolic links resolved, which is the only form that may be used from then on. The
// directory has to be one of the allowed ones or below one; the links are resolved
// before that is looked at, so a link cannot lead out.
func WorkingDir(path string, allowed []string) (resolved string, err error) {
	if err := checkPath(path); err != nil {
		return "", err
	}
	resolved, err = filepath.EvalSymlinks(path)
	if err != nil {
		return "", pathError(path, err)
	}
	info, err := os.Stat(resolved)
	if err != nil {
		return "", pathError(path, err)
	}
	if !info.IsDir() {
		return "", refuse(fieldDir, "%s is not a directory", shown(path))
	}
	if !insideAny(resolved, allowed) {
		return "", outside(path, resolved, allowed)
	}
	return resolved, nil
}

// checkPath looks at the path as it was written.
func checkPath(path string) error {
	switch {
	case path == "":
		return refuse(fieldDir, "is empty; give an absolute path")
	case strings.ContainsRune(path, 0):
		return refuse(fieldDir, "holds a NUL byte")
	case !filepath.IsAbs(path):
		return refuse(fieldDir, "%s is not absolute; write the whole path from /", shown(path))
	case slices.Contains(strings.Split(filepath.ToSlash(path), "/"), ".."):
		return refuse(fieldDir, `%s contains ".."; write the path without it`, shown(path))
	}
	return nil
}

func pathError(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &Error{Field: fieldDir, Message: shown(path) + " does not exist; create it or choose another directory", Missing: true}
	case errors.Is(err, fs.ErrPermission):
		return refuse(fieldDir, "%s cannot be reached: permission denied", shown(path))
	}
	return refuse(fieldDir, "%s cannot be resolved: %v", shown(path), err)
}

func outside(path, resolved string, allowed []string) error {
	where := shown(path)
	if resolved != filepath.Clean(path) {
		where += " (in truth " + shown(resolved) + ")"
	}
	if len(allowed) == 0 {
		return refuse(fieldDir, "%s is not allowed: engine.allowed_working_dirs names no directory", where)
	}
	return refuse(fieldDir, "%s is outside of engine.allowed_working_dirs (%s)", where, strings.Join(allowed, ", "))
}

// insideAny reports whether dir, already resolved, is one of roots or below one. A
// root that cannot be resolved allows nothing.
func insideAny(dir string, roots []string) bool {
	return slices.ContainsFunc(roots, func(root string) bool {
		if !filepath.IsAbs(root) {
			return false
		}
		root, err := filepath.EvalSymlinks(root)
		return err == nil && Inside(dir, root)
	})
}

// Inside reports whether path is root or below it, component by component and by
// their text alone; both have to be clean.
func Inside(path, root string) bool {
	return path == root || strings.HasPrefix(path, strings.TrimSuffix(root, "/")+"/")
}
