package watch_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/threadmill/threadmill/templates/watch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// subject is a running watcher over one file whose content names further paths.
type subject struct {
	t       *testing.T
	file    string
	trigger chan struct{}
	log     *bytes.Buffer // to be read after the end only
	seen    chan string   // the content at each reload
	end     func()

	mu    sync.Mutex
	paths []string
}

func start(t *testing.T) *subject {
	t.Helper()
	file := filepath.Join(t.TempDir(), "threadmill.yaml")
	s := &subject{t: t, file: file, trigger: make(chan struct{}), log: &bytes.Buffer{}, seen: make(chan string, 1000), paths: []string{file}}
	s.write("")
	w := &watch.Watcher{Paths: s.now, Reload: s.reload, Trigger: s.trigger, Log: slog.New(slog.NewTextHandler(s.log, nil))}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(ctx)
	}()
	s.end = sync.OnceFunc(func() {
		cancel()
		<-done
	})
	t.Cleanup(s.end)
	s.wait("")
	return s
}

func (s *subject) now() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.paths
}

// reload reads the file: each line is a further path to watch; "bad" is refused.
func (s *subject) reload(context.Context) error {
	b, err := os.ReadFile(s.file)
	if err != nil {
		return err
	}
	text := strings.TrimSpace(string(b))
	defer func() { s.seen <- text + found(text) }()
	if text == "bad" {
		return errors.New("this file is bad")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paths = append([]string{s.file}, strings.Fields(text)...)
	return nil
}

// found tells what there is at the path that the file names: the names in a folder,
// the content of a file.
func found(path string) string {
	if entries, err := os.ReadDir(path); err == nil {
		return fmt.Sprint(" is ", entries)
	}
	if b, err := os.ReadFile(path); err == nil {
		return " is " + string(b)
	}
	return ""
}

func (s *subject) write(text string) {
	s.t.Helper()
	if err := os.WriteFile(s.file, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// wait waits for a reload that saw that content.
func (s *subject) wait(text string) {
	s.t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		select {
		case got := <-s.seen:
			if got == text {
				return
			}
		case <-deadline:
			s.t.Fatalf("no reload saw %q", text)
		}
	}
}

func TestWriteInPlace(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, text := range []string{"a", "b", "a"} {
		s.write(text)
		s.wait(text)
	}
}

func TestSaveByRename(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, text := range []string{"a", "b", "c"} {
		next := filepath.Join(filepath.Dir(s.file), "."+text)
		if err := errors.Join(os.WriteFile(next, []byte(text), 0o600), os.Rename(next, s.file)); err != nil {
			t.Fatal(err)
		}
		s.wait(text)
	}
}

func TestTrigger(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.trigger <- struct{}{}
	s.wait("")
}

// TestRefusedReload: a bad file is reported, and the next good one is taken.
func TestRefusedReload(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.write("bad")
	s.wait("bad")
	s.write("good")
	s.wait("good")
	s.end()
	if !strings.Contains(s.log.String(), "this file is bad") {
		t.Errorf("the refusal is not in the log:\n%s", s.log)
	}
}

// TestFolderNamedByTheFile: a folder that comes with a reload, does not exist yet, and
// is replaced later is watched all the same.
func TestFolderNamedByTheFile(t *testing.T) {
	t.Parallel()
	s := start(t)
	dir := filepath.Join(t.TempDir(), "capabilities")
	s.write(dir)
	s.wait(dir)
	for range 2 {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		s.wait(dir + " is []")
		if err := os.WriteFile(filepath.Join(dir, "a.yaml"), []byte("a"), 0o600); err != nil {
			t.Fatal(err)
		}
		s.wait(dir + " is [- a.yaml]")
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		s.wait(dir)
	}
}

// TestLinkSwapped: mounted configurations are replaced by swapping a link above them.
func TestLinkSwapped(t *testing.T) {
	t.Parallel()
	s := start(t)
	dir := t.TempDir()
	link := filepath.Join(dir, "current")
	for _, v := range []string{"v1", "v2"} {
		target := filepath.Join(dir, v)
		err := errors.Join(os.Mkdir(target, 0o700), os.WriteFile(filepath.Join(target, "x.yaml"), []byte("text of "+v), 0o600))
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("v1", link); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(link, "x.yaml")
	s.write(file)
	s.wait(file + " is text of v1")
	if err := errors.Join(os.Symlink("v2", link+".new"), os.Rename(link+".new", link)); err != nil {
		t.Fatal(err)
	}
	s.wait(file + " is text of v2")
}
