package demo

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func open(t *testing.T, o options) *memory {
	t.Helper()
	m, err := openMemory(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.close)
	return m
}

func add(t *testing.T, m *memory, text string) {
	t.Helper()
	if err := m.add(text); err != nil {
		t.Fatal(err)
	}
}

func TestMemory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "deep", "state")
	first := open(t, options{state: dir})
	add(t, first, "one\nline")
	again := open(t, options{state: dir, resume: first.id})
	fork := open(t, options{state: dir, resume: first.id, fork: true})
	add(t, again, "two")
	add(t, fork, "three")
	for _, c := range []struct {
		m    *memory
		want []string
	}{{first, []string{"one\nline", "two"}}, {again, []string{"one\nline", "two"}}, {fork, []string{"one\nline", "three"}}} {
		if diff := cmp.Diff(c.want, c.m.said()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	for path, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, first.id+".jsonl"): 0o600} {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, want %v", path, info.Mode(), err, want)
		}
	}
}

// TestMemoryTorn resumes a session whose last line was being written in a crash.
func TestMemoryTorn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := open(t, options{state: dir})
	add(t, m, "whole")
	if _, err := m.file.WriteString(`"torn`); err != nil {
		t.Fatal(err)
	}
	again := open(t, options{state: dir, resume: m.id})
	add(t, again, "next")
	if diff := cmp.Diff([]string{"whole", "next"}, again.said()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestMemoryBounds(t *testing.T) {
	t.Parallel()
	m := open(t, options{state: t.TempDir()})
	for range recallCount + 5 {
		add(t, m, strings.Repeat("\x01", 2*rememberBytes))
	}
	said := m.said()
	if len(said) != recallCount || len(said[0]) != rememberBytes {
		t.Errorf("%d messages of %d bytes are remembered", len(said), len(said[0]))
	}
}

func TestMemoryRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "secret.jsonl"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"secret", "../secret", "00000000-0000-4000-8000-000000000000", "x"} {
		if _, err := openMemory(options{state: dir, resume: id}); err == nil {
			t.Errorf("session %q is opened", id)
		}
	}
	file := filepath.Join(dir, "secret.jsonl")
	if _, err := openMemory(options{state: file}); err == nil || !strings.Contains(err.Error(), "state_dir") {
		t.Errorf("openMemory below a file = %v, want what to do about it", err)
	}
}
