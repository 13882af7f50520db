package demo

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/threadmill/threadmill/engine/agent"
)

// The bounds of an edit.
const (
	editBytes   = 1 << 20 // of a file that may be edited
	diffContext = 3       // lines before the change
)

// edit adds a line to a file of the working directory and tells the difference.
func (p *player) edit(s step) {
	id := p.newID("tool")
	t := agent.Tool{
		Name: "edit", Action: agent.ActionFileEdit, Status: agent.ToolRunning,
		Input: editInput(s), Path: s.name,
	}
	p.emit(event{Type: evTool, ID: id, Tool: &t})
	before, existed, err := appendLine(s.name, s.text)
	t.Status = agent.ToolSuccess
	if err != nil {
		t.Status, t.Result = agent.ToolFailed, err.Error()
	} else {
		t.Diff = appendDiff(s.name, before, existed, s.text)
	}
	p.emit(event{Type: evTool, ID: id, Tool: &t})
}

func editInput(s step) json.RawMessage {
	b, err := json.Marshal(map[string]string{"file": s.name, "text": s.text})
	if err != nil {
		return nil // strings always encode
	}
	return b
}

// appendLine adds text as a line to a file and returns what it held before. The file
// is reached through a root, so neither ".." nor a symbolic link leads out.
func appendLine(name, text string) (before []byte, existed bool, err error) {
	root, err := os.OpenRoot(".")
	if err != nil {
		return nil, false, fmt.Errorf("open the working directory: %w", err)
	}
	defer root.Close()
	f, existed, err := openForEdit(root, name)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	before, err = io.ReadAll(io.LimitReader(f, editBytes+1))
	switch {
	case err != nil:
		return nil, false, fmt.Errorf("read %s: %w", name, err)
	case len(before) > editBytes:
		return nil, false, fmt.Errorf("edit %s: it is larger than %d bytes", name, editBytes)
	}
	if len(before) > 0 && !bytes.HasSuffix(before, []byte("\n")) {
		text = "\n" + text
	}
	if _, err = io.WriteString(f, text+"\n"); err != nil {
		return nil, false, fmt.Errorf("write %s: %w", name, err)
	}
	return before, existed, nil
}

// openForEdit opens a regular file, or makes it.
func openForEdit(root *os.Root, name string) (f *os.File, existed bool, err error) {
	info, err := root.Stat(name)
	existed = err == nil
	switch {
	case existed && !info.Mode().IsRegular():
		return nil, false, fmt.Errorf("edit %s: it is not a regular file", name)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, false, fmt.Errorf("edit %s: %w", name, err)
	}
	f, err = root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, false, fmt.Errorf("edit %s: %w", name, err)
	}
	return f, existed, nil
}

// appendDiff is the unified diff of adding a line to a file.
func appendDiff(name string, before []byte, existed bool, text string) string {
	var b strings.Builder
	from := "a/" + name
	if !existed {
		from = "/dev/null"
	}
	fmt.Fprintf(&b, "--- %s\n+++ b/%s\n", from, name)
	lines := strings.SplitAfter(strings.ToValidUTF8(string(before), "\uFFFD"), "\n")
	unfinished := lines[len(lines)-1] != ""
	if !unfinished {
		lines = lines[:len(lines)-1]
	}
	shown := lines[max(0, len(lines)-diffContext):]
	first := len(lines) - len(shown) + 1
	fmt.Fprintf(&b, "@@ -%s +%s @@\n", span(first, len(shown)), span(first, len(shown)+1))
	for i, line := range shown {
		if unfinished && i == len(shown)-1 {
			fmt.Fprintf(&b, "-%s\n\\ No newline at end of file\n+%s\n", line, line)
			continue
		}
		b.WriteString(" " + line)
	}
	b.WriteString("+" + text + "\n")
	return b.String()
}

// span is one side of a hunk's head. An empty side stands before the first line.
func span(first, n int) string {
	switch n {
	case 0:
		return fmt.Sprintf("%d,0", first-1)
	case 1:
		return fmt.Sprint(first)
	}
	return fmt.Sprintf("%d,%d", first, n)
}
