package main

import (
	"github.com/threadmill/threadmill/adapters/claude"
	"github.com/threadmill/threadmill/adapters/command"
	"github.com/threadmill/threadmill/adapters/demo"
	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/agent"
)

// adapters are the kinds of agents that this binary can drive, by the name that
// stands in the configuration.
func adapters() map[string]agent.Adapter {
	return map[string]agent.Adapter{
		"claude":  claude.New(),
		"command": command.New(),
		"demo":    demo.New(),
	}
}

// ownProgram completes an agent whose program is this binary itself.
func ownProgram(ag engine.Agent, self string) engine.Agent {
	if ag.Adapter == demoAdapter && ag.Binary == "" {
		ag.Binary, ag.Args = self, []string{demoAgentCommand}
	}
	return ag
}
