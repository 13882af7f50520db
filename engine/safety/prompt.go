package safety

import (
	"regexp"
	"slices"
	"strings"
)

// inPrompt finds the placeholders of a prompt. Other braces are ordinary text: prompts
// talk about templates, too.
var inPrompt = regexp.MustCompile(`\{\{ *([A-Za-z_][A-Za-z0-9_-]{0,63}) *\}\}`)

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
	for _, m := range inPrompt.FindAllStringSubmatch(prompt, -1) {
		if !s.Declares(m[1]) && !slices.Contains(PromptFacts(), m[1]) {
			es = append(es, refuse("prompt", "{{%s}} is neither declared in args_schema nor one of %s", m[1], strings.Join(PromptFacts(), ", ")))
		}
	}
	return es.orNil()
}

// Prompt fills in a prompt in one pass: values are inserted as they are and never
// looked at again, so a value that looks like a placeholder stays text. A name without
// a value is an optional one and leaves nothing, except for docs_path, which is needed.
func Prompt(prompt string, args map[string]any) (string, error) {
	var es Errors
	out := inPrompt.ReplaceAllStringFunc(prompt, func(match string) string {
		name := inPrompt.FindStringSubmatch(match)[1]
		value, ok := args[name]
		if name == docsPath && (!ok || value == "") {
			es = append(es, refuse(docsPath, "is not set: this works on a task's folder, so run it for a task that has one"))
			return ""
		}
		if !ok {
			return ""
		}
		text, err := valueText(name, value)
		if err != nil {
			es = append(es, err)
		}
		return text
	})
	if err := es.orNil(); err != nil {
		return "", err
	}
	return out, nil
}
