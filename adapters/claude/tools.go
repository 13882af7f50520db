package claude

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/threadmill/threadmill/adapters/internal/program"
	"github.com/threadmill/threadmill/engine/agent"
)

const (
	// maxResult bounds what is kept of a tool's result; its end says most.
	maxResult = 16 << 10
	// maxInput bounds the arguments that an entry repeats; longer texts in them are cut.
	maxInput     = 64 << 10
	maxInputText = 2 << 10
)

// tools are the tool calls that have not ended.
type tools struct {
	dir  string // the working directory
	open map[string]*call
}

// call is one of them.
type call struct {
	tool   agent.Tool
	note   string // what the agent says about it
	parent string // the call of the sub-agent that makes it
}

func newTools(dir string) tools { return tools{dir: dir, open: map[string]*call{}} }

// arguments are those that are shown by themselves, whatever the tool.
type arguments struct {
	Command     string `json:"command"`
	Description string `json:"description"`
	File        string `json:"file_path"`
	Notebook    string `json:"notebook_path"`
	Path        string `json:"path"`
	Pattern     string `json:"pattern"`
	Query       string `json:"query"`
	URL         string `json:"url"`
}

func actionOf(name string) agent.Action {
	switch name {
	case "Bash", "PowerShell":
		return agent.ActionCommandRun
	case "Read", "NotebookRead":
		return agent.ActionFileRead
	case "Write":
		return agent.ActionFileWrite
	case "Edit", "MultiEdit", "NotebookEdit":
		return agent.ActionFileEdit
	case "Glob", "Grep", "LS", "WebSearch":
		return agent.ActionSearch
	}
	return agent.ActionTool
}

// begun takes a tool call.
func (t *tools) begun(b block, parent string) []agent.Entry {
	if b.ID == "" || b.Name == "" || t.open[b.ID] != nil {
		return nil
	}
	var args arguments
	_ = json.Unmarshal(b.Input, &args) // other shapes have nothing to show by itself
	c := &call{parent: parent, note: args.Description, tool: agent.Tool{
		Name: b.Name, Action: actionOf(b.Name), Status: agent.ToolCreated, Input: shorten(b.Input),
	}}
	switch c.tool.Action {
	case agent.ActionCommandRun:
		c.tool.Command = args.Command
	case agent.ActionFileRead, agent.ActionFileWrite, agent.ActionFileEdit:
		c.tool.Path = t.name(args.File + args.Notebook)
	case agent.ActionSearch:
		c.note = strings.TrimSpace(args.Pattern + args.Query + " " + t.name(args.Path))
	case agent.ActionTool:
		c.note = strings.TrimSpace(args.Description + " " + args.URL + args.Query)
	}
	t.open[b.ID] = c
	return []agent.Entry{c.entry(b.ID)}
}

// running notes that a call goes on: it was allowed, or shows a sign of life.
func (t *tools) running(id string) []agent.Entry {
	c := t.open[id]
	if c == nil || c.tool.Status != agent.ToolCreated {
		return nil
	}
	c.tool.Status = agent.ToolRunning
	return []agent.Entry{c.entry(id)}
}

// outcome is the structured part of a result; on errors it is a string.
type outcome struct {
	patch

	Background  string `json:"backgroundTaskId"`
	Agent       string `json:"agentId"`
	Async       bool   `json:"isAsync"`
	Interrupted bool   `json:"interrupted"`
}

// task is the background task that goes on after the result; empty: none does.
func (o outcome) task() string {
	if o.Async {
		return o.Agent
	}
	return o.Background
}

func outcomeOf(structured json.RawMessage) outcome {
	var out outcome
	_ = json.Unmarshal(structured, &out) // a string, or a tool's own
	return out
}

// ended takes a tool's result.
func (t *tools) ended(b block, out outcome) []agent.Entry {
	c := t.open[b.ForID]
	if c == nil {
		return nil
	}
	delete(t.open, b.ForID)
	c.tool.Status = agent.ToolSuccess
	if b.IsError {
		c.tool.Status = agent.ToolFailed
	}
	text := plain(b.Content)
	c.tool.Result = program.Clip(text, maxResult)
	switch {
	case out.task() != "":
		c.tool.Result = "It goes on in the background."
	case c.tool.Action == agent.ActionCommandRun && !out.Interrupted:
		c.tool.ExitCode = exitCode(text, b.IsError)
	case c.tool.Action == agent.ActionFileEdit, c.tool.Action == agent.ActionFileWrite:
		c.tool.Diff = out.diff(c.tool.Path)
	}
	return []agent.Entry{c.entry(b.ForID)}
}

// close ends the calls that will have no result: those of the main conversation, or all.
func (t *tools) close(all bool, why string) []agent.Entry {
	var told []agent.Entry
	for _, id := range slices.Sorted(maps.Keys(t.open)) {
		c := t.open[id]
		if c.parent != "" && !all {
			continue
		}
		delete(t.open, id)
		c.tool.Status, c.tool.Result = agent.ToolFailed, why
		told = append(told, c.entry(id))
	}
	return told
}

func (c *call) entry(id string) agent.Entry {
	tool := c.tool
	e := agent.Entry{Kind: agent.KindToolUse, ID: id, Content: c.note, Tool: &tool}
	if c.parent != "" {
		e.Meta = map[string]any{"parent": c.parent}
	}
	return e
}

// name is a file's name for people: inside the working directory it is relative.
func (t *tools) name(path string) string {
	rel, err := filepath.Rel(t.dir, path)
	if path == "" || err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return path
	}
	return rel
}

// exitCode reads the exit code that the CLI puts before a failed command's output; one
// that never ran has none.
func exitCode(result string, failed bool) *int {
	code := 0
	if failed {
		rest, ok := strings.CutPrefix(strings.TrimPrefix(result, "Error: "), "Exit code ")
		digits := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
		n, err := strconv.Atoi(digits)
		if !ok || err != nil {
			return nil
		}
		code = n
	}
	return &code
}

// plain is the text of a content that is a string or blocks.
func plain(content json.RawMessage) string {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return text
	}
	var blocks []block
	_ = json.Unmarshal(content, &blocks) // neither: nothing to show
	var parts []string
	for _, b := range blocks {
		switch {
		case b.Type == "text":
			parts = append(parts, b.Text)
		case b.Type != "":
			parts = append(parts, "["+b.Type+"]")
		}
	}
	return strings.Join(parts, "\n")
}

// shorten cuts long texts in a tool's arguments, which stay JSON.
func shorten(input json.RawMessage) json.RawMessage {
	if len(input) <= maxInput {
		return input
	}
	var v any
	if json.Unmarshal(input, &v) != nil {
		return nil
	}
	short, err := json.Marshal(cut(v))
	if err != nil || len(short) > maxInput {
		return nil
	}
	return short
}

func cut(v any) any {
	switch v := v.(type) {
	case string:
		if len(v) > maxInputText {
			return strings.ToValidUTF8(v[:maxInputText], "") + "…"
		}
	case map[string]any:
		for key, item := range v {
			v[key] = cut(item)
		}
	case []any:
		for i, item := range v {
			v[i] = cut(item)
		}
	}
	return v
}
