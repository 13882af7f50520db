package safety

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// LookPath finds the program that argv[0] names: in the directories of pathEnv, or,
// where the name has a slash, relative to dir. It is the agent's PATH that counts, not
// that of this process. Relative directories in PATH are skipped: they would let a
// repository choose the program.
func LookPath(binary, pathEnv, dir string) (abs string, err error) {
	if binary == "" {
		return "", refuse("command", "names no program")
	}
	if filepath.Base(binary) != binary {
		if !filepath.IsAbs(binary) {
			binary = filepath.Join(dir, binary)
		}
		if err := runnable(binary); err != nil {
			return "", err
		}
		return binary, nil
	}
	var found error
	for _, d := range filepath.SplitList(pathEnv) {
		if !filepath.IsAbs(d) {
			continue
		}
		abs := filepath.Join(d, binary)
		err := runnable(abs)
		if err == nil {
			return abs, nil
		}
		var e *Error
		if errors.As(err, &e) && !e.Missing && found == nil {
			found = err
		}
	}
	if found != nil {
		return "", found
	}
	return "", &Error{Field: "command", Missing: true, Message: "the program " + shown(binary) +
		" was not found; install it or add its directory to PATH (" + pathEnv + ")"}
}

// runnable checks that path is a file that may be executed.
func runnable(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &Error{Field: "command", Message: "the program " + shown(path) + " does not exist", Missing: true}
	case err != nil:
		return refuse("command", "the program %s cannot be reached: %v", shown(path), err)
	case info.IsDir():
		return refuse("command", "%s is a directory, not a program", shown(path))
	case info.Mode()&0o111 == 0:
		return refuse("command", "the program %s is not executable; chmod +x makes it so", shown(path))
	}
	return nil
}
