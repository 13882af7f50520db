package config

import (
	"cmp"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/threadmill/threadmill/templates/strictyaml"
)

// narrowingName is the file by which a repository restricts what agents do in it.
const narrowingName = ".threadmill.yaml"

// narrowing is the form of that file. Agents can write it, so nothing in it may widen
// anything; nil: not said.
type narrowing struct {
	Agents map[string]narrowAgent `yaml:"agents"`
}

type narrowAgent struct {
	Enabled         *bool          `yaml:"enabled"`
	MaxConcurrent   *int           `yaml:"max_concurrent"`
	IdleTimeout     *time.Duration `yaml:"idle_timeout"`
	ApprovalTimeout *time.Duration `yaml:"approval_timeout"`
	Timeout         *time.Duration `yaml:"timeout"`
	MaxOutputBytes  *int64         `yaml:"max_output_bytes"`
	MaxTurns        *int           `yaml:"max_turns"`
	PermissionMode  *string        `yaml:"permission_mode"`
	EnvAllowlist    *[]string      `yaml:"env_allowlist"`
	AllowedTools    *[]string      `yaml:"allowed_tools"`
	DisallowedTools *[]string      `yaml:"disallowed_tools"`
	Budget          narrowBudget   `yaml:"budget"`
}

type narrowBudget struct {
	PerRunUSD     *float64 `yaml:"per_run_usd"`
	PerRunTokens  *int64   `yaml:"per_run_tokens"`
	PerUserDayUSD *float64 `yaml:"per_user_day_usd"`
	PerDayUSD     *float64 `yaml:"per_day_usd"`
}

// modes returns the permission modes from the narrowest to the widest.
func modes() []string {
	return []string{"plan", "dontAsk", "default", "acceptEdits", "bypassPermissions"}
}

func narrowingFile(dir string) string { return filepath.Join(dir, narrowingName) }

// Narrow returns the configuration with each agent restricted by the .threadmill.yaml
// in its working directory, where there is one. An agent whose file is wrong, or would
// widen something, is disabled and the problems are returned: a repository can switch
// its own agent off, but not keep the service from starting.
func (c *Config) Narrow() (*Config, strictyaml.Problems) {
	narrowed := *c
	narrowed.Agents = maps.Clone(c.Agents)
	var problems strictyaml.Problems
	for _, id := range sortedKeys(c.Agents) {
		a := c.Agents[id]
		found := a.narrowBy(id, narrowingFile(a.WorkingDir))
		if len(found) > 0 {
			a.Enabled = false
		}
		narrowed.Agents[id] = a
		problems = append(problems, found...)
	}
	return &narrowed, problems
}

// narrowBy restricts a by what the file at path says about the agent id.
func (a *Agent) narrowBy(id, path string) strictyaml.Problems {
	if info, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err == nil && !info.Mode().IsRegular() { // a link could lead the service to any file
		return strictyaml.Problems{{File: path, Message: "must be an ordinary file"}}
	}
	data, err := read(path)
	if err != nil {
		return strictyaml.Problems{{File: path, Message: "cannot be read: " + cause(err)}}
	}
	var file narrowing
	doc, err := strictyaml.Decode(path, data, &file)
	if problems, ok := errors.AsType[strictyaml.Problems](err); ok {
		return problems
	}
	said, ok := file.Agents[id]
	if !ok {
		return nil
	}
	n := &narrower{doc: doc, path: "agents." + id}
	n.apply(a, said)
	return n.problems
}

// narrower applies one restriction and notes what would widen.
type narrower struct {
	doc      *strictyaml.Document
	path     string
	problems strictyaml.Problems
}

func (n *narrower) refuse(key, why string) {
	n.problems = append(n.problems, n.doc.Problem(n.path+"."+key, "would widen what the service allows: %s", why))
}

func (n *narrower) apply(a *Agent, to narrowAgent) {
	if to.Enabled != nil {
		if *to.Enabled && !a.Enabled {
			n.refuse("enabled", "the agent is disabled")
		}
		a.Enabled = a.Enabled && *to.Enabled
	}
	limit(n, "max_concurrent", &a.MaxConcurrent, to.MaxConcurrent)
	limit(n, "approval_timeout", &a.ApprovalTimeout, to.ApprovalTimeout)
	limit(n, "timeout", &a.Timeout, to.Timeout)
	limit(n, "max_output_bytes", &a.MaxOutputBytes, to.MaxOutputBytes)
	limit(n, "max_turns", &a.MaxTurns, to.MaxTurns)
	limit(n, "budget.per_run_usd", &a.Budget.PerRunUSD, to.Budget.PerRunUSD)
	limit(n, "budget.per_run_tokens", &a.Budget.PerRunTokens, to.Budget.PerRunTokens)
	limit(n, "budget.per_user_day_usd", &a.Budget.PerUserDayUSD, to.Budget.PerUserDayUSD)
	limit(n, "budget.per_day_usd", &a.Budget.PerDayUSD, to.Budget.PerDayUSD)
	n.idle(a, to.IdleTimeout)
	n.mode(a, to.PermissionMode)
	n.subset("env_allowlist", &a.EnvAllowlist, to.EnvAllowlist)
	n.subset("allowed_tools", &a.AllowedTools, to.AllowedTools)
	if to.DisallowedTools != nil {
		a.DisallowedTools = union(a.DisallowedTools, *to.DisallowedTools)
	}
}

// limit lowers a limit for which 0 means that there is none.
func limit[T cmp.Ordered](n *narrower, key string, current, to *T) {
	var none T
	switch {
	case to == nil:
	case *to < none:
		n.refuse(key, "it is negative")
	case *to == none && *current != none:
		n.refuse(key, "0 means no limit")
	case *current != none && *to > *current:
		n.refuse(key, "it is above the service's limit")
	default:
		*current = *to
	}
}

// idle lowers the idle timeout, for which 0 is the least.
func (n *narrower) idle(a *Agent, to *time.Duration) {
	switch {
	case to == nil:
	case *to < 0 || *to > a.IdleTimeout:
		n.refuse("idle_timeout", "it is not between 0 and the service's")
	default:
		a.IdleTimeout = *to
	}
}

func (n *narrower) mode(a *Agent, to *string) {
	if to == nil {
		return
	}
	rank := slices.Index(modes(), *to)
	if rank < 0 || rank > slices.Index(modes(), a.PermissionMode) {
		n.refuse("permission_mode", "possible are "+strings.Join(modes()[:slices.Index(modes(), a.PermissionMode)+1], ", "))
		return
	}
	a.PermissionMode = *to
}

func (n *narrower) subset(key string, current, to *[]string) {
	if to == nil {
		return
	}
	for _, s := range *to {
		if !slices.Contains(*current, s) {
			n.refuse(key, "it names something that is not in the service's list")
			return
		}
	}
	*current = *to
}

// union returns a new list: the old one may belong to the configuration.
func union(a, b []string) []string {
	out := slices.Concat(a, b)
	slices.Sort(out)
	return slices.Compact(out)
}
