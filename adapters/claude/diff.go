package claude

import (
	"fmt"
	"strings"
)

// patch is how the CLI tells a change: hunks with the signs of a unified diff.
type patch struct {
	Kind     string `json:"type"` // create, update
	Path     string `json:"filePath"`
	Content  string `json:"content"`
	Original string `json:"originalFile"`
	Hunks    []hunk `json:"structuredPatch"`
}

type hunk struct {
	OldStart int      `json:"oldStart"`
	OldLines int      `json:"oldLines"`
	NewStart int      `json:"newStart"`
	NewLines int      `json:"newLines"`
	Lines    []string `json:"lines"`
}

// maxDiff bounds a diff: whoever wants more of it reads the file.
const maxDiff = 256 << 10

// diff writes the change as a unified diff of the file by the name given.
func (p patch) diff(name string) string {
	old, hunks := "a/"+name, p.Hunks
	if p.Kind == "create" && len(hunks) == 0 {
		old, hunks = "/dev/null", added(p.Content)
	}
	if len(hunks) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "--- %s\n+++ b/%s\n", old, name)
	for _, h := range hunks {
		h.write(&b)
		if b.Len() > maxDiff {
			return strings.ToValidUTF8(b.String()[:maxDiff], "") + "\n… the rest is left out\n"
		}
	}
	return b.String()
}

func (h hunk) write(b *strings.Builder) {
	fmt.Fprintf(b, "@@ -%s +%s @@\n", span(h.OldStart, h.OldLines), span(h.NewStart, h.NewLines))
	for _, line := range h.Lines {
		b.WriteString(line)
		b.WriteByte('\n')
	}
}

func span(start, n int) string {
	if n == 1 {
		return fmt.Sprint(start)
	}
	return fmt.Sprintf("%d,%d", start, n)
}

// added is the change that makes a new file.
func added(content string) []hunk {
	if content == "" {
		return nil
	}
	text, whole := strings.CutSuffix(content, "\n")
	lines := strings.Split(text, "\n")
	h := hunk{NewStart: 1, NewLines: len(lines), Lines: make([]string, 0, len(lines)+1)}
	for _, line := range lines {
		h.Lines = append(h.Lines, "+"+line)
	}
	if !whole {
		h.Lines = append(h.Lines, `\ No newline at end of file`)
	}
	return []hunk{h}
}
