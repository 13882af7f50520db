package config

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
)

const (
	masked    = "***"
	maxSecret = 64 << 10
)

const variable = `^[A-Za-z_][A-Za-z0-9_]*$`

// Secret is a value that never appears in logs, errors or JSON. It is written as
// env:NAME, file:/path or literally.
type Secret struct {
	ref   string // as it was written
	value string
}

// UnmarshalText takes the secret as it is written; it is resolved later.
func (s *Secret) UnmarshalText(b []byte) error {
	ref := string(b)
	if name, ok := strings.CutPrefix(ref, "env:"); ok && !matches(variable, name) {
		return errors.New("env: must be followed by the name of a variable")
	}
	if strings.TrimPrefix(ref, "file:") == "" && ref != "" {
		return errors.New("file: must be followed by a path")
	}
	*s = Secret{ref: ref}
	return nil
}

// Reveal returns the value itself.
func (s Secret) Reveal() string { return s.value }

// IsSet reports whether anything was configured.
func (s Secret) IsSet() bool { return s.ref != "" }

// variable returns the name of the variable that holds the secret, or "".
func (s Secret) variable() string {
	name, ok := strings.CutPrefix(s.ref, "env:")
	if !ok {
		return ""
	}
	return name
}

// String hides the value.
func (s Secret) String() string {
	if !s.IsSet() {
		return ""
	}
	return masked
}

// GoString hides the value from %#v.
func (s Secret) GoString() string { return s.String() }

// MarshalText hides the value from encoders.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue hides the value from loggers.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// resolve fetches the value. Its errors name neither the variable nor the path: what
// was written there may be the secret itself, by mistake.
func (s *Secret) resolve(home *home, env map[string]string) error {
	if name := s.variable(); name != "" {
		if s.value = env[name]; s.value == "" {
			return errors.New("the variable that it names is not set; set it for the service, or write file:/path")
		}
		return nil
	}
	path, ok := strings.CutPrefix(s.ref, "file:")
	if !ok {
		s.value = s.ref
		return nil
	}
	path, err := home.abs(path)
	if err != nil {
		return err
	}
	s.value, err = readSecret(path)
	return err
}

func readSecret(path string) (string, error) {
	f, err := os.Open(filepath.Clean(path))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "", errors.New("the file that it names does not exist")
	case err != nil:
		return "", errors.New("the file that it names cannot be opened by the service")
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	value := strings.TrimSpace(string(b))
	switch {
	case err != nil:
		return "", errors.New("the file that it names cannot be read")
	case len(b) > maxSecret:
		return "", errors.New("the file that it names is too large for a secret")
	case value == "":
		return "", errors.New("the file that it names is empty")
	}
	return value, nil
}
