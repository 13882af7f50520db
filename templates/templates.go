// Package templates holds what agents can be asked to do, as files: the built-in
// capabilities, embedded, and folders of YAML files on top of them. It checks them
// when they are read, so that what is in a [Set] can be run.
//
// It knows the form of capabilities and nothing of how, when or for whom they run.
package templates

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/safety"
	"github.com/threadmill/threadmill/templates/strictyaml"
)

//go:embed capabilities/*.yaml
var builtin embed.FS

// BuiltIn is the source of an embedded capability.
const BuiltIn = "built in"

// keyForm is compiled where it is needed: every process would pay for a variable.
const keyForm = `^[a-z0-9][a-z0-9-]{0,39}$`

func isKey(s string) bool {
	matched, err := regexp.MatchString(keyForm, s)
	return err == nil && matched
}

// Set is capabilities by key, with where each of them is written.
type Set struct {
	capabilities map[string]engine.Capability
	documents    map[string]*strictyaml.Document
}

// file is the form of a capability's file.
type file struct {
	Key            string         `yaml:"key"`
	Label          string         `yaml:"label"`
	Description    string         `yaml:"description"`
	Agent          string         `yaml:"agent"`
	Mode           engine.Mode    `yaml:"mode"`
	Prompt         string         `yaml:"prompt"`
	Command        []string       `yaml:"command"`
	ArgsSchema     map[string]any `yaml:"args_schema"`
	WorkingDir     string         `yaml:"working_dir"`
	Timeout        time.Duration  `yaml:"timeout"`
	MaxOutputBytes int64          `yaml:"max_output_bytes"`
}

// Load reads the embedded capabilities and then those of each folder; a later one
// takes the place of an earlier one of the same key. All problems of all files are
// reported at once, as [strictyaml.Problems]; then there is no set.
func Load(dirs []string) (Set, error) {
	s := Set{capabilities: map[string]engine.Capability{}, documents: map[string]*strictyaml.Document{}}
	embedded, err := fs.Sub(builtin, "capabilities")
	if err != nil {
		return Set{}, fmt.Errorf("open the built-in capabilities: %w", err)
	}
	problems := s.read(embedded, func(string) string { return BuiltIn })
	for _, dir := range dirs {
		problems = append(problems, s.read(os.DirFS(dir), func(name string) string { return filepath.Join(dir, name) })...)
	}
	if err := problems.OrNil(); err != nil {
		return Set{}, err
	}
	return s, nil
}

// read adds the capabilities of one folder; source names a file of it for people.
func (s *Set) read(dir fs.FS, source func(name string) string) strictyaml.Problems {
	entries, err := fs.ReadDir(dir, ".")
	if err != nil {
		return strictyaml.Problems{{File: source(""), Message: reason(err)}}
	}
	var problems strictyaml.Problems
	here := map[string]string{}
	for _, e := range entries {
		if !IsFile(e.Name()) || e.IsDir() {
			continue
		}
		c, doc, found := readFile(dir, e.Name(), source(e.Name()))
		if earlier, twice := here[c.ID]; twice && c.ID != "" {
			found = append(found, doc.Problem("key", "%s is the key of %s already", c.ID, earlier))
		}
		problems = append(problems, found...)
		here[c.ID] = e.Name()
		s.capabilities[c.ID], s.documents[c.ID] = c, doc
	}
	return problems
}

// IsFile reports whether a file of that name is read from a folder of capabilities:
// what editors leave beside it is not.
func IsFile(name string) bool {
	ext := path.Ext(name)
	return (ext == ".yaml" || ext == ".yml") && !strings.HasPrefix(name, ".")
}

// reason is an error of the file system without the path, which stands beside it.
func reason(err error) string {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		err = pe.Err
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "does not exist; create the folder or take it out of `capabilities`"
	}
	return "cannot be read: " + err.Error()
}

func readFile(dir fs.FS, name, source string) (engine.Capability, *strictyaml.Document, strictyaml.Problems) {
	shown := source
	if source == BuiltIn {
		shown = BuiltIn + " " + name
	}
	data, err := readBounded(dir, name)
	if err != nil {
		return engine.Capability{}, &strictyaml.Document{File: shown}, strictyaml.Problems{{File: shown, Message: reason(err)}}
	}
	c, doc, problems := Parse(shown, data)
	c.Source = source
	return c, doc, problems
}

func readBounded(dir fs.FS, name string) ([]byte, error) {
	f, err := dir.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, strictyaml.MaxBytes+1))
}

// Parse reads and checks one capability; name is the file's, for problems.
func Parse(name string, data []byte) (engine.Capability, *strictyaml.Document, strictyaml.Problems) {
	var f file
	doc, err := strictyaml.Decode(name, data, &f)
	if problems, ok := errors.AsType[strictyaml.Problems](err); ok {
		return f.capability(), doc, problems
	}
	return f.capability(), doc, f.check(doc)
}

func (f *file) capability() engine.Capability {
	return engine.Capability{
		ID: f.Key, Label: f.Label, Description: f.Description, AgentID: f.Agent, Mode: f.Mode,
		Prompt: f.Prompt, Command: f.Command, ArgsSchema: f.ArgsSchema, WorkingDir: f.WorkingDir,
		Timeout: f.Timeout, MaxOutputBytes: f.MaxOutputBytes,
	}
}

// check finds everything that would keep the capability from running.
func (f *file) check(doc *strictyaml.Document) strictyaml.Problems {
	var ps strictyaml.Problems
	wrong := func(bad bool, path, message string) {
		if bad {
			ps = append(ps, doc.Problem(path, "%s", message))
		}
	}
	wrong(!isKey(f.Key), "key", "must be 1 to 40 small letters, digits and dashes, such as tail-log")
	wrong(f.Label == "", "label", "is missing: a few words for people")
	wrong(f.Agent == "" && f.Mode == engine.ModeTemplate, "agent", "is missing: the agent that runs the command")
	wrong(f.WorkingDir != "" && !filepath.IsAbs(f.WorkingDir), "working_dir", "must be an absolute path")
	wrong(f.Timeout < 0, "timeout", "must not be negative")
	wrong(f.MaxOutputBytes < 0, "max_output_bytes", "must not be negative")
	return append(ps, f.checkMode(doc)...)
}

// checkMode checks what depends on the mode: the prompt or the command, and its schema.
func (f *file) checkMode(doc *strictyaml.Document) strictyaml.Problems {
	schema, err := safety.Compile(f.ArgsSchema)
	ps := places(doc, err)
	switch f.Mode {
	case engine.ModePrompt:
		if f.Command != nil {
			ps = append(ps, doc.Problem("command", "belongs to mode template; this is mode prompt"))
		}
		if schema != nil {
			ps = append(ps, places(doc, safety.CheckPrompt(f.Prompt, schema))...)
		}
	case engine.ModeTemplate:
		if f.Prompt != "" {
			ps = append(ps, doc.Problem("prompt", "belongs to mode prompt; this is mode template"))
		}
		ps = append(ps, places(doc, safety.CheckCommand(f.Command, schema))...)
	default:
		ps = append(ps, doc.Problem("mode", "must be prompt or template"))
	}
	return ps
}

// places gives what safety refused a place in the file.
func places(doc *strictyaml.Document, err error) strictyaml.Problems {
	if err == nil {
		return nil
	}
	var many safety.Errors
	var one *safety.Error
	if !errors.As(err, &many) && errors.As(err, &one) {
		many = safety.Errors{one}
	}
	if many == nil {
		return strictyaml.Problems{doc.Problem("", "%v", err)}
	}
	ps := make(strictyaml.Problems, len(many))
	for i, e := range many {
		ps[i] = doc.Problem(e.Field, "%s", e.Message)
	}
	return ps
}

// Keys returns the keys of the set in alphabetical order.
func (s Set) Keys() []string { return slices.Sorted(maps.Keys(s.capabilities)) }
