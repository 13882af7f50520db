package web

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// TokenFile is the name of the token's file in the data directory.
const TokenFile = "api-token"

// minToken is the shortest token that is accepted: a truncated file must not become
// a password that can be guessed.
const minToken = 32

// LoadToken returns the API token of a data directory and makes one at the first
// start. Its file is for the owner alone.
func LoadToken(dataDir string) (string, error) {
	token, err := ReadToken(dataDir)
	if !errors.Is(err, os.ErrNotExist) {
		return token, err
	}
	if err := writeToken(filepath.Join(dataDir, TokenFile)); err != nil {
		return "", fmt.Errorf("make the API token: %w", err)
	}
	return ReadToken(dataDir)
}

// ReadToken returns the API token of a data directory; where the service has never
// been started there it is os.ErrNotExist.
func ReadToken(dataDir string) (string, error) {
	path := filepath.Join(dataDir, TokenFile)
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read the API token: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil && !errors.Is(err, os.ErrPermission) {
		return "", fmt.Errorf("close the API token to others: %w", err)
	}
	token := strings.TrimSpace(string(b))
	if len(token) < minToken || strings.ContainsFunc(token, notTokenChar) {
		return "", fmt.Errorf("%s holds no token of at least %d letters and digits: remove it and start the service again", path, minToken)
	}
	return token, nil
}

// notTokenChar refuses what could not stand in a header or in the name of a
// WebSocket subprotocol.
func notTokenChar(r rune) bool {
	ok := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.'
	return !ok
}

// writeToken writes a new token beside path and links it there: a crash leaves the
// whole of it or nothing, and of two that race the first one wins for both.
func writeToken(path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+TokenFile+".*") // CreateTemp makes it 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails: it ends the program instead
	_, err = f.WriteString(hex.EncodeToString(secret) + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}
