package templates

import (
	"maps"
	"slices"

	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/templates/strictyaml"
)

// commandAdapter is the adapter that runs commands and takes no prompts; demoAdapter
// is the one that only plays.
const (
	commandAdapter = "command"
	demoAdapter    = "demo"
)

// Bind returns the capabilities that the agents can run. Built-in ones for an agent
// that is not configured fall away; one that names no agent gets the first that takes
// prompts; and each agent that takes prompts can be asked under its own name. A
// capability from a folder whose agent does not exist or does not suit is a problem.
func (s Set) Bind(agents map[string]engine.Agent) (map[string]engine.Capability, error) {
	out := make(map[string]engine.Capability, len(s.capabilities)+len(agents))
	var problems strictyaml.Problems
	for _, key := range s.Keys() {
		c := s.capabilities[key]
		if c.AgentID == "" {
			c.AgentID = firstPrompted(agents)
		}
		if message := unsuited(c, agents); message == "" {
			out[key] = c
		} else if c.Source != BuiltIn {
			problems = append(problems, s.documents[key].Problem("agent", "%s", message))
		}
	}
	if err := problems.OrNil(); err != nil {
		return nil, err
	}
	for id, a := range agents {
		if _, taken := out[id]; !taken && a.Adapter != commandAdapter && isKey(id) {
			out[id] = engine.Capability{
				ID: id, Label: "Ask " + id, AgentID: id, Mode: engine.ModePrompt, Prompt: "{{text}}", Source: BuiltIn,
			}
		}
	}
	return out, nil
}

// unsuited says why a capability cannot run on its agent; empty: it can.
func unsuited(c engine.Capability, agents map[string]engine.Agent) string {
	a, ok := agents[c.AgentID]
	switch {
	case c.AgentID == "":
		return "no agent is named, and none that takes prompts is configured"
	case !ok:
		return "there is no agent " + c.AgentID + " in the configuration"
	case c.Mode == engine.ModeTemplate && a.Adapter != commandAdapter:
		return "agent " + c.AgentID + " takes prompts; a command needs one with adapter: command"
	case c.Mode == engine.ModePrompt && a.Adapter == commandAdapter:
		return "agent " + c.AgentID + " runs commands and takes no prompts"
	}
	return ""
}

// firstPrompted is the agent for what names none: a real one before the demo.
func firstPrompted(agents map[string]engine.Agent) string {
	var demo string
	for _, id := range slices.Sorted(maps.Keys(agents)) {
		switch agents[id].Adapter {
		case commandAdapter:
		case demoAdapter:
			demo = id
		default:
			return id
		}
	}
	return demo
}
