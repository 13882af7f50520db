package tmux

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// oldest is the first version with the command language that we speak.
const oldest = 3.0

// Version tells the version of the tmux binary and refuses one that is too old.
func (s *Server) Version(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	out, err := command(ctx, []string{s.path, "-V"}).Output()
	if err != nil {
		return "", fmt.Errorf("ask %s for its version: %w", s.path, err)
	}
	version := strings.TrimPrefix(strings.TrimSpace(string(out)), "tmux ")
	if number, ok := number(version); ok && number < oldest {
		return version, fmt.Errorf("tmux %s (%s) is too old, 3.0 is needed; install a newer one", version, s.path)
	}
	return version, nil
}

// number reads 3.3 from "3.3a" and "next-3.5". Builds that have no number of their
// own ("openbsd-7.4", "master") are recent.
func number(version string) (float64, bool) {
	if strings.HasPrefix(version, "openbsd-") {
		return 0, false
	}
	version = strings.TrimPrefix(version, "next-")
	end := strings.IndexFunc(version, func(r rune) bool { return r != '.' && (r < '0' || r > '9') })
	if end < 0 {
		end = len(version)
	}
	n, err := strconv.ParseFloat(version[:end], 64)
	return n, err == nil
}
