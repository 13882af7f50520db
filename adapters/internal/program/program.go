// Package program is what every adapter has to know about the program it drives:
// where it is, how its command line reads, and what its end means. It knows no
// agent's protocol and starts nothing.
package program

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/threadmill/threadmill/engine/agent"
)

// Check tells whether the job's program can run; hint says what to do where it is
// missing.
func Check(job agent.Job, hint string) agent.Availability {
	if len(job.Argv) == 0 || job.Argv[0] == "" {
		return agent.Availability{Problem: "no program is configured", Hint: hint}
	}
	path, err := Find(job.Argv[0], job.Env, job.Dir)
	if err != nil {
		if errors.Is(err, fs.ErrPermission) {
			hint = "make it executable (chmod +x)"
		}
		return agent.Availability{Problem: err.Error(), Hint: hint}
	}
	return agent.Availability{OK: true, Path: path}
}

// Find returns the absolute path of the program that name means to a process with
// that environment and working directory. Its errors wrap [exec.ErrNotFound] or
// [fs.ErrPermission].
func Find(name string, env []string, dir string) (string, error) {
	if strings.ContainsRune(name, filepath.Separator) {
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		return path, runnable(path)
	}
	path := Lookup(env, "PATH")
	if name == "" {
		path = "" // joined to a directory it would be the directory
	}
	var denied error
	for _, d := range filepath.SplitList(path) {
		if !filepath.IsAbs(d) {
			continue // a relative directory would let a repository choose the program
		}
		err := runnable(filepath.Join(d, name))
		if err == nil {
			return filepath.Join(d, name), nil
		}
		if errors.Is(err, fs.ErrPermission) && denied == nil {
			denied = err
		}
	}
	if denied != nil {
		return "", denied
	}
	return "", fmt.Errorf("find %s in PATH (%s): %w", name, path, exec.ErrNotFound)
}

// Lookup returns the value of key in env, or nothing. The last one counts, as it does
// for the process.
func Lookup(env []string, key string) string {
	for _, kv := range slices.Backward(env) {
		if v, ok := strings.CutPrefix(kv, key+"="); ok {
			return v
		}
	}
	return ""
}

func runnable(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("find %s: %w", path, exec.ErrNotFound)
	case err != nil:
		return fmt.Errorf("find the program: %w", err)
	case info.IsDir():
		return fmt.Errorf("run %s: it is a directory: %w", path, fs.ErrPermission)
	case info.Mode()&0o111 == 0:
		return fmt.Errorf("run %s: it is not executable: %w", path, fs.ErrPermission)
	}
	return nil
}
