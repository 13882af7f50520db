package safety

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ResolvePath returns the file that path, taken from dir, stands for, with all links
// resolved; of what does not exist yet, the part that does. It is not ok where that
// cannot be told for sure: with "..", which programs resolve in two ways, through a link
// that leads nowhere yet, or where a part of it cannot be looked at.
func ResolvePath(dir, path string) (resolved string, ok bool) {
	if path == "" || !filepath.IsAbs(dir) || strings.ContainsRune(path, 0) || hasParent(path) {
		return "", false
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	return resolveExisting(filepath.Clean(path))
}

func hasParent(path string) bool {
	return slices.Contains(strings.Split(filepath.ToSlash(path), "/"), "..")
}

// resolveExisting resolves the links of the longest part of path that exists.
func resolveExisting(path string) (string, bool) {
	rest := ""
	for {
		_, err := os.Lstat(path)
		if err == nil {
			resolved, err := filepath.EvalSymlinks(path)
			return filepath.Join(resolved, rest), err == nil
		}
		if !errors.Is(err, fs.ErrNotExist) || path == filepath.Dir(path) {
			return "", false
		}
		path, rest = filepath.Dir(path), filepath.Join(filepath.Base(path), rest)
	}
}
