package engine

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"

	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/safety"
)

// argument is what the rules look at of an ask: the command, the file, the address, or
// else the tool's whole input as it is.
type argument struct {
	kind   argumentKind
	text   string   // what an allow has to match
	also   []string // other ways to write it: a deny that matches one of them holds
	unsure bool     // what it stands for cannot be told: no allow matches
}

type argumentKind uint8

const (
	argData argumentKind = iota // the input as JSON
	argCommand
	argPath
	argAddress
)

// argumentForm says where in a tool's input its argument is found, and what may stand
// beside it without changing what it means.
type argumentForm struct {
	kind   argumentKind
	keys   []string
	beside []string
	always bool // whatever stands beside it
}

// formsOf returns the forms to look for. What the agent says of a tool's action is
// believed where it makes more of the input, and an unknown tool that takes a command
// is looked at as one that runs commands.
func formsOf(action agent.Action) []argumentForm {
	command := argumentForm{kind: argCommand, keys: []string{"command", "cmd"}, beside: []string{"description", "reason", "timeout", "timeout_ms", "run_in_background"}}
	file := argumentForm{kind: argPath, keys: []string{"file_path", "filePath", "path", "notebook_path"}}
	address := argumentForm{kind: argAddress, keys: []string{"url"}, beside: []string{"prompt"}}
	switch action {
	case agent.ActionFileRead, agent.ActionFileWrite, agent.ActionFileEdit:
		file.always = true
		return []argumentForm{file, command}
	case agent.ActionSearch:
		return []argumentForm{command}
	case agent.ActionCommandRun, agent.ActionTool:
	}
	return []argumentForm{command, file, address}
}

// argumentOf finds the argument of an ask by an execution that works in dir.
func argumentOf(ask agent.Ask, dir string) argument {
	arg := shownArgument(ask, dir)
	arg.unsure = arg.unsure || ask.Shortened
	return arg
}

func shownArgument(ask agent.Ask, dir string) argument {
	whole := argument{kind: argData, text: compact(ask.Input)}
	if ask.Action == agent.ActionCommandRun {
		whole.kind = argCommand
	}
	fields, clean := fieldsOf(ask.Input)
	for _, form := range formsOf(ask.Action) {
		key, found := form.find(fields)
		if !found {
			continue
		}
		text := fields[key]
		if !clean || !form.alone(fields, key, dir) {
			whole.also = spellings(form.kind, text.text, dir)
			if form.kind == argCommand {
				whole.kind = argCommand // no wildcard reaches into it
			}
			return whole
		}
		return form.argument(text.text, dir)
	}
	return whole
}

func (f argumentForm) argument(text, dir string) argument {
	a := argument{kind: f.kind, text: text, also: spellings(f.kind, text, dir)}
	if f.kind == argPath {
		resolved, ok := safety.ResolvePath(dir, text)
		a.text, a.unsure = resolved, !ok
	}
	return a
}

// spellings are the ways in which somebody who denies may have written an argument.
func spellings(kind argumentKind, text, dir string) []string {
	out := []string{text}
	switch kind {
	case argCommand:
		out = append(out, strings.Join(strings.Fields(text), " "))
	case argPath:
		if !filepath.IsAbs(text) {
			text = filepath.Join(dir, text)
		}
		out = append(out, filepath.Clean(text))
		if resolved, ok := safety.ResolvePath(dir, text); ok {
			out = append(out, resolved)
		}
	case argData, argAddress:
	}
	return out
}

// find returns the one key of the form that the fields have.
func (f argumentForm) find(fields map[string]field) (key string, found bool) {
	for _, k := range f.keys {
		if v, ok := fields[k]; ok && v.isText {
			return k, true
		}
	}
	return "", false
}

// alone reports whether nothing beside the key changes what it means. A directory
// changes nothing where it is the execution's own.
func (f argumentForm) alone(fields map[string]field, key, dir string) bool {
	for k, v := range fields {
		switch {
		case k == key, f.always && !slices.Contains(f.keys, k), slices.Contains(f.beside, k):
		case f.kind == argCommand && (k == "cwd" || k == "workdir") && v.isText && filepath.Clean(v.text) == dir:
		default:
			return false
		}
	}
	return true
}

// field is one member of a tool's input.
type field struct {
	text   string
	isText bool
}

// fieldsOf reads the members of an input. It is not clean where a name stands twice:
// which of the two an agent takes is its own affair. Names are told apart by case, as
// agents do and encoding/json with a struct does not.
func fieldsOf(input json.RawMessage) (fields map[string]field, clean bool) {
	d := json.NewDecoder(bytes.NewReader(input))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil, false
	}
	fields, clean = map[string]field{}, true
	for d.More() {
		name, err := d.Token()
		key, isName := name.(string)
		if err != nil || !isName {
			return nil, false
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return nil, false
		}
		var f field
		f.isText = len(raw) > 0 && raw[0] == '"' && json.Unmarshal(raw, &f.text) == nil
		_, twice := fields[key]
		clean = clean && !twice
		fields[key] = f
	}
	_, err := d.Token() // the closing brace
	if err != nil || len(bytes.TrimSpace(input[d.InputOffset():])) > 0 {
		return nil, false
	}
	return fields, clean
}

func compact(input json.RawMessage) string {
	var b bytes.Buffer
	if err := json.Compact(&b, input); err != nil {
		return string(input)
	}
	return b.String()
}
