package safety

import (
	"slices"
	"strings"
)

// PromptFacts returns the names that every prompt may use beside its arguments: what
// was asked for in words, and the task that it belongs to.
func PromptFacts() []string { return []string{"text", "title", "context", docsPath} }

// docsPath is the one fact without which a prompt that uses it makes no sense: the
// agent would look for its task in the root directory.
const docsPath = "docs_path"

// CheckPrompt checks a prompt against its schema when it is loaded: each placeholder
// is an argument or one of [PromptFacts].
func CheckPrompt(prompt string, s *Schema) error {
	if strings.TrimSpace(prompt) == "" {
		return refuse("prompt", "is empty")
	}
	var es Errors
	for _, p := range placeholders(prompt) {
		if !s.Declares(p.name) && !slices.Contains(PromptFacts(), p.name) {
			es = append(es, refuse("prompt", "{{%s}} is neither declared in args_schema nor one of %s", p.name, strings.Join(PromptFacts(), ", ")))
		}
	}
	return es.orNil()
}

// Prompt fills in a prompt in one pass: values are inserted as they are and never
// looked at again, so a value that looks like a placeholder stays text. A name without
// a value is an optional one and leaves nothing, except for docs_path, which is needed.
func Prompt(prompt string, args map[string]any) (string, error) {
	var es Errors
	var out strings.Builder
	done := 0
	for _, p := range placeholders(prompt) {
		text, problem := fill(p.name, args)
		if problem != nil {
			es = append(es, problem)
		}
		out.WriteString(prompt[done:p.start])
		out.WriteString(text)
		done = p.end
	}
	if err := es.orNil(); err != nil {
		return "", err
	}
	return out.String() + prompt[done:], nil
}

// fill returns what stands for a name in a prompt.
func fill(name string, args map[string]any) (string, *Error) {
	value, ok := args[name]
	if name == docsPath && (!ok || value == "") {
		return "", refuse(docsPath, "is not set: this works on a task's folder, so run it for a task that has one")
	}
	if !ok {
		return "", nil
	}
	return valueText(name, value)
}
