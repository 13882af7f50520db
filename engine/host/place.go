package host

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/threadmill/threadmill/engine/rundir"
)

// maxSocketPath is what fits into a socket address everywhere: 104 bytes on macOS
// (108 on Linux), the NUL at the end included.
const maxSocketPath = 103

// shortNameLen is the length of what shortName returns.
const shortNameLen = 26

// staleSecrets is the age at which nobody will read a secrets file any more.
const staleSecrets = time.Minute

// RunDirFor names the run directory of a data directory, below base. The name is
// short and its own for each data directory, so two services do not meet in one.
func RunDirFor(base, data string) string {
	sum := sha256.Sum256([]byte(filepath.Clean(data)))
	return filepath.Join(base, "threadmill-"+hex.EncodeToString(sum[:4]))
}

// prepareRunDir makes the run directory, or makes sure that an existing one is ours
// alone: it holds secrets for a moment, and whoever can write to it can put his own
// sockets in our place.
func prepareRunDir(dir string) error {
	if longest := filepath.Join(dir, strings.Repeat("x", shortNameLen)+".sock"); len(longest) > maxSocketPath {
		return fmt.Errorf("the run directory %s is too long: a socket in it would have a path of %d bytes, the system allows %d; set a shorter one",
			dir, len(longest), maxSocketPath)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return fmt.Errorf("make the run directory: %w", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make the run directory: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("make the run directory: %w", err)
	}
	return checkRunDir(dir, info)
}

func checkRunDir(dir string, info fs.FileInfo) error {
	if !info.IsDir() {
		return fmt.Errorf("the run directory %s is not a directory (a symbolic link is refused too); remove it", dir)
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); ok && int(owner.Uid) != os.Geteuid() {
		return fmt.Errorf("the run directory %s belongs to user %d, not to us; set another one", dir, owner.Uid)
	}
	if info.Mode().Perm() == 0o700 {
		return nil
	}
	if err := os.Chmod(dir, 0o700); err != nil { //nolint:gosec // a directory
		return fmt.Errorf("close the run directory to others: %w", err)
	}
	return nil
}

// shortName is an execution's id in 26 characters, for paths that have to be short.
func shortName(id string) (string, error) {
	b, err := hex.DecodeString(strings.ReplaceAll(id, "-", ""))
	if err != nil || len(b) != 16 {
		return "", fmt.Errorf("execution id %q is not one of ours", id)
	}
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b)), nil
}

// runFile is the path of one of an execution's files in the run directory.
func (h *Host) runFile(id, suffix string) (string, error) {
	name, err := shortName(id)
	if err != nil {
		return "", err
	}
	return filepath.Join(h.o.RunDir, name+suffix), nil
}

func (h *Host) socketPath(id string) (string, error)  { return h.runFile(id, ".sock") }
func (h *Host) secretsPath(id string) (string, error) { return h.runFile(id, ".env") }

// writeSecrets writes the secrets for a runner by rename: one that starts at this
// moment, from an earlier launch of the same execution, finds all of them or none.
func writeSecrets(path string, s rundir.Secrets) error {
	b, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("write the runner's environment: %w", err)
	}
	next := path + ".new"
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a launch that was killed
		return fmt.Errorf("write the runner's environment: %w", err)
	}
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("write the runner's environment: %w", err)
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(next, path)
	}
	if err != nil {
		return fmt.Errorf("write the runner's environment: %w", errors.Join(err, os.Remove(next)))
	}
	return nil
}

// dropStaleSecrets removes the secrets of launches that were cut off. A runner takes
// its own within moments of the launch; a launch that is repeated writes them anew.
func dropStaleSecrets(dir string) error {
	for _, pattern := range []string{"*.env", "*.env.new"} {
		paths, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return fmt.Errorf("look for stale secrets: %w", err)
		}
		for _, path := range paths {
			info, err := os.Lstat(path)
			if err == nil && time.Since(info.ModTime()) > staleSecrets {
				err = os.Remove(path)
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("remove stale secrets: %w", err)
			}
		}
	}
	return nil
}

// forget removes what an execution has in the run directory.
func (h *Host) forget(id string, suffixes ...string) error {
	var errs []error
	for _, suffix := range suffixes {
		path, err := h.runFile(id, suffix)
		if err == nil {
			err = os.Remove(path)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
