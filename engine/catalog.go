package engine

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/safety"
)

// Catalog is what the configuration offers at one moment. It is replaced as a whole
// on reload and never changed; an execution keeps what it was resolved to.
type Catalog struct {
	Agents        map[string]Agent
	Capabilities  map[string]Capability
	Workers       map[string]Worker
	AllowedDirs   []string // working directories must be below one of these
	MaxConcurrent int      // executions at a time over all agents; 0: no limit
	OnLost        OnLost
	BudgetZone    *time.Location // of the calendar days of budgets; nil: UTC
	Retention     Retention
	CancelOnStop  bool // end executions at shutdown; otherwise they run on without the service
}

// OnLost says what happens to an execution whose runner was killed.
type OnLost struct {
	Resume bool // start a child execution that resumes the session
	Max    int  // how many times in a row
}

// Retention says how long things are kept after their end; 0: for ever.
type Retention struct {
	Logs       time.Duration // an execution's files
	Executions time.Duration // rows
}

// AgentView is an agent with what is known about it right now.
type AgentView struct {
	Agent
	Traits       agent.Traits       `json:"traits"`
	Availability agent.Availability `json:"availability"`
	Running      int                `json:"running"`
	Queued       int                `json:"queued"`
}

// SetCatalog puts a new configuration in force for everything that starts from now on.
func (e *Engine) SetCatalog(c Catalog) error {
	schemas := make(map[string]*safety.Schema, len(c.Capabilities))
	for id, cp := range c.Capabilities {
		s, err := safety.Compile(cp.ArgsSchema)
		if err != nil {
			return Errorf(CodeInvalid, "capability %s: %w", id, err)
		}
		schemas[id] = s
	}
	e.catalog.Store(&catalog{Catalog: c, schemas: schemas})
	e.availability.forget()
	e.bell.ring()
	return nil
}

// catalog is a Catalog with its schemas compiled.
type catalog struct {
	Catalog
	schemas map[string]*safety.Schema
}

// Capabilities returns what agents can be asked to do, by key.
func (e *Engine) Capabilities() []Capability {
	return sortedByKey(e.catalog.Load().Capabilities)
}

// Capability finds a capability by its key.
func (e *Engine) Capability(id string) (Capability, bool) {
	c, ok := e.catalog.Load().Capabilities[id]
	return c, ok
}

// Agent finds an agent as it is configured, without a look at what it does.
func (e *Engine) Agent(id string) (Agent, bool) {
	a, ok := e.catalog.Load().Agents[id]
	return a, ok
}

// Agents returns all agents, by id, with their load and whether they can run here.
func (e *Engine) Agents(ctx context.Context) ([]AgentView, error) {
	active, err := e.store.Active(ctx)
	if err != nil {
		return nil, err
	}
	running, queued := map[string]int{}, map[string]int{}
	for _, x := range active {
		if x.Status == Queued {
			queued[x.AgentID]++
		} else {
			running[x.AgentID]++
		}
	}
	agents := sortedByKey(e.catalog.Load().Agents)
	views := make([]AgentView, 0, len(agents))
	for _, a := range agents {
		v := AgentView{Agent: a, Running: running[a.ID], Queued: queued[a.ID]}
		v.Traits, v.Availability = e.check(ctx, a)
		views = append(views, v)
	}
	return views, nil
}

// check asks the adapter whether the agent can run; the answer is kept for a minute,
// since it may start the agent's binary to learn its version.
func (e *Engine) check(ctx context.Context, a Agent) (agent.Traits, agent.Availability) {
	adapter, ok := e.adapters[a.Adapter]
	if !ok {
		return agent.Traits{}, agent.Availability{Problem: "no adapter named " + a.Adapter}
	}
	av := e.availability.get(a.ID, e.now(), func() agent.Availability {
		job := agent.Job{Argv: agentArgv(a), Dir: a.WorkingDir, Env: e.agentEnv(a, nil), Options: a.Options}
		return adapter.Check(ctx, job)
	})
	return adapter.Traits(), av
}

// agentArgv is the command line of an agent's own CLI.
func agentArgv(a Agent) []string {
	if a.Binary == "" {
		return nil
	}
	return append([]string{a.Binary}, a.Args...)
}

// agentEnv builds an agent's environment from scratch.
func (e *Engine) agentEnv(a Agent, facts map[string]string) []string {
	return safety.Env(e.environ, a.EnvAllowlist, facts)
}

func sortedKeys[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }

func sortedByKey[T any](m map[string]T) []T {
	out := make([]T, 0, len(m))
	for _, k := range sortedKeys(m) {
		out = append(out, m[k])
	}
	return out
}
