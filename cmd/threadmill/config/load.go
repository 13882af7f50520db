package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/threadmill/threadmill/templates/strictyaml"
)

// FileName is the name of a configuration file where it is searched for.
const FileName = "threadmill.yaml"

// origin is where a configuration came from; it is needed to say where a problem is
// and to notice changes.
type origin struct {
	document *strictyaml.Document
	byEnv    map[string]string // path of a setting → the variable that set it
	watched  []string
	unsolved strictyaml.Problems // secrets without a value
}

// home is what relative paths and ~ refer to.
type home struct {
	user string // the user's home, or THREADMILL_HOME
	data string // where data is by default
	own  string // where the configuration is by default
	base string // the folder of the configuration file
}

// Load reads the configuration: the file at path, or, where that is empty, the one
// that THREADMILL_CONFIG names, ./threadmill.yaml, or the user's. Where there is none
// at all, the result is a demonstration set-up. Variables THREADMILL_SECTION_KEY take
// precedence over the file. All problems are returned at once, as
// [strictyaml.Problems].
//
// Secrets without a value are no problem here, since most commands need none; see
// [Config.CheckSecrets].
func Load(path string, environ []string) (*Config, error) {
	env := variables(environ)
	h, err := homeOf(env)
	if err != nil {
		return nil, err
	}
	file, data, candidates, err := find(path, env, h)
	if err != nil {
		return nil, err
	}
	h.base = h.own
	if file != "" {
		h.base = filepath.Dir(file)
	}
	c, err := parse(file, data, env, h)
	if err != nil {
		return nil, err
	}
	c.watched = append(c.watched, candidates...)
	return c, nil
}

// Parse makes a configuration of data, the content of a file of that name, without
// looking for one.
func Parse(file string, data []byte, environ []string) (*Config, error) {
	env := variables(environ)
	h, err := homeOf(env)
	if err != nil {
		return nil, err
	}
	h.base = filepath.Dir(file)
	return parse(file, data, env, h)
}

func parse(file string, data []byte, env map[string]string, h *home) (*Config, error) {
	c := defaults(h.data)
	c.Path = file
	var problems, found strictyaml.Problems
	doc, err := strictyaml.Decode(file, data, c)
	if errors.As(err, &found) {
		problems = append(problems, found...)
	}
	c.document = doc
	if len(c.Agents) == 0 {
		c.Agents = demonstration()
	}
	c.byEnv, found = override(c, env)
	problems = append(problems, found...)
	k := &checker{c: c, home: h, env: env, seen: problems}
	k.complete()
	k.check()
	if err := k.seen.OrNil(); err != nil {
		return nil, err
	}
	return c, nil
}

// find returns the file that is to be read, its content, and all that could have been.
// A file that somebody named has to exist.
func find(path string, env map[string]string, h *home) (file string, data []byte, candidates []string, err error) {
	named := true
	switch {
	case path != "":
		candidates = []string{path}
	case env["THREADMILL_CONFIG"] != "":
		candidates = []string{env["THREADMILL_CONFIG"]}
	default:
		named, candidates = false, []string{FileName}
		if h.own != "" {
			candidates = append(candidates, filepath.Join(h.own, FileName))
		}
	}
	for i, c := range candidates {
		if candidates[i], err = filepath.Abs(c); err != nil {
			return "", nil, nil, fmt.Errorf("find the configuration: %w", err)
		}
	}
	for _, c := range candidates {
		data, err = read(c)
		switch {
		case err == nil:
			return c, data, candidates, nil
		case !errors.Is(err, os.ErrNotExist):
			return "", nil, nil, strictyaml.Problems{{File: c, Message: "cannot be read: " + cause(err)}}
		case named:
			return "", nil, nil, strictyaml.Problems{{File: c, Message: "does not exist; `threadmill init` writes one"}}
		}
	}
	return "", nil, candidates, nil
}

// read reads a file as far as it can be a configuration.
func read(path string) ([]byte, error) {
	f, err := os.Open(filepath.Clean(path))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, strictyaml.MaxBytes+1))
}

// cause is an error of the file system without the path.
func cause(err error) string {
	if pe, ok := errors.AsType[*os.PathError](err); ok {
		return pe.Err.Error()
	}
	return err.Error()
}

func variables(environ []string) map[string]string {
	out := make(map[string]string, len(environ))
	for _, kv := range environ {
		if name, value, ok := strings.Cut(kv, "="); ok {
			out[name] = value
		}
	}
	return out
}

// homeOf says where things are by default. With THREADMILL_HOME everything is below
// it, so a test never touches the user's own home. Without either there are no
// defaults, and what is not configured is a problem.
func homeOf(env map[string]string) (*home, error) {
	if own := env["THREADMILL_HOME"]; own != "" {
		own, err := filepath.Abs(own)
		if err != nil {
			return nil, fmt.Errorf("resolve THREADMILL_HOME: %w", err)
		}
		return &home{user: own, data: filepath.Join(own, "data"), own: own}, nil
	}
	user := env["HOME"]
	if !filepath.IsAbs(user) {
		return &home{}, nil
	}
	return &home{
		user: user,
		data: filepath.Join(user, ".local", "share", "threadmill"),
		own:  filepath.Join(user, ".config", "threadmill"),
	}, nil
}

// abs resolves ~ and makes a path absolute, relative to the configuration's folder.
func (h *home) abs(path string) (string, error) {
	rest, tilde := strings.CutPrefix(path, "~")
	switch {
	case tilde && rest != "" && rest[0] != '/':
		return "", errors.New("another user's home (~name) is not resolved; write the path out")
	case tilde && h.user == "":
		return "", errors.New("~ cannot be resolved, since HOME is not set; write the path out")
	case tilde:
		path = filepath.Join(h.user, rest)
	case !filepath.IsAbs(path):
		path = filepath.Join(h.base, path)
	}
	return filepath.Abs(path)
}
