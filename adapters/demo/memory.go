package demo

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/threadmill/threadmill/adapters/internal/lines"
	"github.com/threadmill/threadmill/engine/agent"
)

// The bounds of what a session remembers of one message, and of what recall shows.
const (
	rememberBytes = 4 << 10
	recallCount   = 50
)

var sessionID = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// memory is what a session remembers: a file with one JSON string a line, appended
// only, so a crash costs at most the line that was being written.
type memory struct {
	id   string
	file *os.File
}

// openMemory begins a session, or opens the one that is to be resumed, or a copy of it.
func openMemory(o options) (*memory, error) {
	root, err := stateRoot(o.state)
	if err != nil {
		return nil, cannotRemember(err)
	}
	defer root.Close()
	if o.resume == "" {
		return createSession(root, nil)
	}
	old, err := openSession(root, o.resume)
	if err != nil || !o.fork {
		return old, err
	}
	defer old.close()
	return createSession(root, old.file)
}

func stateRoot(dir string) (*os.Root, error) {
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, err
		}
		dir = filepath.Join(home, ".local", "state", stateName)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return os.OpenRoot(dir)
}

// createSession makes a new session that remembers what from holds.
func createSession(root *os.Root, from io.Reader) (*memory, error) {
	id := newSessionID()
	f, err := root.OpenFile(id+".jsonl", os.O_RDWR|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err == nil && from != nil {
		_, err = io.Copy(f, from)
	}
	if err != nil {
		return nil, cannotRemember(err)
	}
	return &memory{id: id, file: f}, nil
}

func openSession(root *os.Root, id string) (*memory, error) {
	if !sessionID.MatchString(id) {
		return nil, noSession(id)
	}
	f, err := root.OpenFile(id+".jsonl", os.O_RDWR|os.O_APPEND, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, noSession(id)
	}
	if err == nil {
		err = endLine(f)
	}
	if err != nil {
		return nil, cannotRemember(err)
	}
	return &memory{id: id, file: f}, nil
}

// endLine ends a line that a crash left unfinished, so that the next one is whole.
func endLine(f *os.File) error {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return err
	}
	last := make([]byte, 1)
	if _, err = f.ReadAt(last, info.Size()-1); err == nil && last[0] != '\n' {
		_, err = f.Write([]byte("\n"))
	}
	return err
}

// add remembers a message.
func (m *memory) add(text string) error {
	if len(text) > rememberBytes {
		text = text[:rememberBytes]
	}
	line, err := json.Marshal(text)
	if err == nil {
		_, err = m.file.Write(append(line, '\n'))
	}
	if err != nil {
		return cannotRemember(err)
	}
	return nil
}

// said returns what was said in the session, the newest last.
func (m *memory) said() []string {
	var said []string
	r := lines.NewReader(io.NewSectionReader(m.file, 0, 1<<62), 8*rememberBytes)
	for {
		line, _, err := r.Next()
		if err != nil {
			return said
		}
		var text string
		if json.Unmarshal(line, &text) == nil {
			said = append(said, text)
			said = said[max(0, len(said)-recallCount):]
		}
	}
}

func (m *memory) close() { _ = m.file.Close() }

func newSessionID() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b)
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

func noSession(id string) error {
	return &fatal{event{
		Type: evError, Reason: agent.ReasonNotFound,
		Text: fmt.Sprintf("the demo agent knows no session %q; start a new one", id),
	}}
}

func cannotRemember(err error) error {
	return &fatal{event{
		Type: evError, Reason: agent.ReasonAgentError,
		Text: fmt.Sprintf("the demo agent cannot keep its session (%v); set its option state_dir to a directory that it may write", err),
	}}
}
