package config

import (
	"maps"
	"os"
	"reflect"
	"slices"
	"time"

	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/templates"
	"github.com/threadmill/threadmill/templates/strictyaml"
)

// EngineAgents returns the enabled agents in the engine's terms, by id.
func (c *Config) EngineAgents() []engine.Agent {
	var out []engine.Agent
	for _, id := range sortedKeys(c.Agents) {
		if a := c.Agents[id]; a.Enabled {
			out = append(out, a.engine(id))
		}
	}
	return out
}

// Catalog returns the configuration and the capabilities in the engine's terms.
func (c *Config) Catalog(set templates.Set) (engine.Catalog, error) {
	all := make(map[string]engine.Agent, len(c.Agents))
	enabled := make(map[string]engine.Agent, len(c.Agents))
	for id, a := range c.Agents {
		all[id] = a.engine(id)
		if a.Enabled {
			enabled[id] = all[id]
		}
	}
	capabilities, err := set.Bind(all)
	if err != nil {
		return engine.Catalog{}, err
	}
	for key, cp := range capabilities {
		if _, ok := enabled[cp.AgentID]; !ok {
			delete(capabilities, key)
		}
	}
	return engine.Catalog{
		Agents: enabled, Capabilities: capabilities, Workers: c.workers(),
		AllowedDirs:   c.AllowedDirs(),
		MaxConcurrent: c.Engine.MaxConcurrent,
		OnLost:        engine.OnLost{Resume: c.Engine.OnLost.Action == "resume", Max: c.Engine.OnLost.Max},
		Retention:     engine.Retention{Logs: c.Engine.Retention.Logs, Executions: c.Engine.Retention.Executions},
		CancelOnStop:  c.Engine.OnShutdown == "cancel",
		BudgetZone:    c.zone(),
	}, nil
}

// CheckNamed returns a problem for each capability that a channel or a schedule names
// and the catalog does not have. Nothing else suffers from that, so it is no reason
// not to start.
func (c *Config) CheckNamed(catalog engine.Catalog) error {
	var problems strictyaml.Problems
	named := func(path, key string) {
		if _, ok := catalog.Capabilities[key]; !ok && key != "" {
			problems = append(problems, c.document.Problem(path, "is not among the capabilities; `threadmill capabilities` lists them"))
		}
	}
	for _, key := range sortedKeys(c.Channels) {
		named("channels."+key+".capability", c.Channels[key].Capability)
	}
	for _, id := range sortedKeys(c.Schedules) {
		named("schedules."+id+".capability", c.Schedules[id].Capability)
	}
	return problems.OrNil()
}

// AllowedDirs returns the directories that executions may work in: those configured,
// or else those that agents were given, and always the scratch project.
func (c *Config) AllowedDirs() []string {
	dirs := slices.Clone(c.Engine.AllowedWorkingDirs)
	if dirs == nil {
		for _, id := range sortedKeys(c.Agents) {
			dirs = append(dirs, c.Agents[id].WorkingDir)
		}
	}
	dirs = append(dirs, c.Scratch())
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

func (c *Config) workers() map[string]engine.Worker {
	out := make(map[string]engine.Worker, len(c.Workers))
	for id, w := range c.Workers {
		out[id] = engine.Worker{AgentID: w.Agent, Channel: w.Channel}
	}
	return out
}

// zone is where the days of budgets are; the configuration was checked.
func (c *Config) zone() *time.Location {
	loc, err := time.LoadLocation(c.Budget.TZ)
	if err != nil {
		return time.UTC
	}
	return loc
}

func (a Agent) engine(id string) engine.Agent {
	return engine.Agent{
		ID: id, Adapter: a.Adapter, Binary: a.Binary, Args: a.Args, WorkingDir: a.WorkingDir,
		EnvAllowlist: a.EnvAllowlist, MaxConcurrent: a.MaxConcurrent, OnBusy: engine.OnBusy(a.OnBusy),
		IdleTimeout: a.IdleTimeout, ApprovalTimeout: a.ApprovalTimeout, OnTimeout: a.OnTimeout, Timeout: a.Timeout,
		MaxOutputBytes: a.MaxOutputBytes, Permission: a.PermissionMode, Options: a.options(),
		Budget: engine.Budget(a.Budget), OnLimit: engine.OnLimit{Resume: a.OnLimit.Action == "resume", Max: a.OnLimit.Max},
	}
}

// options returns what is said about an agent and means something to its adapter only.
func (a Agent) options() map[string]any {
	out := map[string]any{}
	maps.Copy(out, a.Options)
	for name, value := range map[string]any{
		"model": a.Model, "allowed_tools": a.AllowedTools, "disallowed_tools": a.DisallowedTools, "max_turns": a.MaxTurns,
		"append_system_prompt": a.AppendSystemPrompt, "mcp_config": a.MCPConfig, "sandbox": a.Sandbox,
	} {
		if !reflect.ValueOf(value).IsZero() {
			out[name] = value
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// WatchPaths returns the files and folders whose change calls for a reload, among them
// those that do not exist yet but would be read.
func (c *Config) WatchPaths() []string {
	paths := append(slices.Clone(c.watched), c.Capabilities...)
	for _, a := range c.Agents {
		paths = append(paths, narrowingFile(a.WorkingDir))
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// NeedsRestart returns the settings that differ in next and do not come into force by
// a reload.
func (c *Config) NeedsRestart(next *Config) []string {
	var out []string
	for name, pair := range map[string][2]any{
		"data_dir":   {c.DataDir, next.DataDir},
		"listen":     {c.Listen, next.Listen},
		"public_url": {c.PublicURL, next.PublicURL},
		"slack":      {c.Slack, next.Slack},
		"discord":    {c.Discord, next.Discord},
		"terminal":   {c.Terminal, next.Terminal},
	} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
