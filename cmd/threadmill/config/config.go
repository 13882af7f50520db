// Package config is the service's configuration: one YAML file, on top of defaults and
// below variables of the environment, checked as a whole before anything uses it.
//
// It knows what may be configured and what is wrong with it, and turns it into the
// engine's terms. It starts nothing and reads no environment by itself: both are the
// caller's.
package config

import (
	"path/filepath"
	"time"
)

// Config is everything that can be configured, with defaults filled in and paths made
// absolute.
type Config struct {
	Path string // the file it was read from; empty: there is none

	DataDir      string              `yaml:"data_dir"`
	Listen       string              `yaml:"listen"`
	PublicURL    string              `yaml:"public_url"`
	Engine       Engine              `yaml:"engine"`
	Budget       Days                `yaml:"budget"`
	Projects     Projects            `yaml:"projects"`
	Agents       map[string]Agent    `yaml:"agents"`
	Capabilities []string            `yaml:"capabilities"`
	Workers      map[string]Worker   `yaml:"workers"`
	Schedules    map[string]Schedule `yaml:"schedules"`
	Slack        Slack               `yaml:"slack"`
	Discord      Discord             `yaml:"discord"`
	Channels     map[string]Channel  `yaml:"channels"`
	Permissions  []Permission        `yaml:"permissions"`
	Terminal     Terminal            `yaml:"terminal"`

	origin
}

// Engine is how executions are run.
type Engine struct {
	MaxConcurrent      int       `yaml:"max_concurrent"`       // over all agents
	AllowedWorkingDirs []string  `yaml:"allowed_working_dirs"` // absent: those that agents are given
	OnShutdown         string    `yaml:"on_shutdown"`          // detach or cancel
	OnLost             OnLost    `yaml:"on_lost"`
	Retention          Retention `yaml:"retention"`
}

// OnLost is what happens to an execution whose runner was killed.
type OnLost struct {
	Action string `yaml:"action"` // fail or resume
	Max    int    `yaml:"max"`    // resumes in a row
}

// Retention is how long things are kept after their end; 0: for ever.
type Retention struct {
	Logs       time.Duration `yaml:"logs"`
	Executions time.Duration `yaml:"executions"`
}

// Projects is where repositories are found.
type Projects struct {
	Roots              []string `yaml:"roots"`
	ScanClaudeProjects bool     `yaml:"scan_claude_projects"`
	Exclude            []string `yaml:"exclude"`
}

// Agent is a CLI that can be run.
type Agent struct {
	Enabled         bool          `yaml:"enabled"`
	Adapter         string        `yaml:"adapter"`
	Binary          string        `yaml:"binary"`
	Args            []string      `yaml:"args"`
	WorkingDir      string        `yaml:"working_dir"` // absent: the scratch project
	EnvAllowlist    []string      `yaml:"env_allowlist"`
	MaxConcurrent   int           `yaml:"max_concurrent"` // 0: only the engine's limit counts
	OnBusy          string        `yaml:"on_busy"`
	IdleTimeout     time.Duration `yaml:"idle_timeout"`
	ApprovalTimeout time.Duration `yaml:"approval_timeout"`    // 0: waits for ever
	OnTimeout       string        `yaml:"on_approval_timeout"` // deny, wait or remind
	Timeout         time.Duration `yaml:"timeout"`             // 0: none
	MaxOutputBytes  int64         `yaml:"max_output_bytes"`    // 0: no limit
	PermissionMode  string        `yaml:"permission_mode"`
	Workspace       string        `yaml:"workspace"` // shared or worktree
	Budget          Budget        `yaml:"budget"`
	OnLimit         OnLimit       `yaml:"on_limit"`

	Model              string         `yaml:"model"`
	AllowedTools       []string       `yaml:"allowed_tools"`
	DisallowedTools    []string       `yaml:"disallowed_tools"`
	MaxTurns           int            `yaml:"max_turns"`
	AppendSystemPrompt string         `yaml:"append_system_prompt"`
	MCPConfig          string         `yaml:"mcp_config"`
	Sandbox            string         `yaml:"sandbox"`
	Options            map[string]any `yaml:"options"` // what only this adapter understands
}

// Budget is what may be spent with an agent; 0: no limit.
type Budget struct {
	PerRunUSD     float64 `yaml:"per_run_usd"`
	PerRunTokens  int64   `yaml:"per_run_tokens"`   // in and out
	PerUserDayUSD float64 `yaml:"per_user_day_usd"` // by one user, with all agents together
	PerDayUSD     float64 `yaml:"per_day_usd"`      // by all users, with this agent
}

// Days is how the days of budgets are told apart.
type Days struct {
	TZ string `yaml:"tz"`
}

// OnLimit is what happens after a usage limit of the agent has ended a run.
type OnLimit struct {
	Action string `yaml:"action"` // offer or resume
	Max    int    `yaml:"max"`    // resumes in a row
}

// Worker is a standing agent.
type Worker struct {
	Agent             string        `yaml:"agent"`
	Channel           string        `yaml:"channel"`
	OnBusy            string        `yaml:"on_busy"`
	Restart           Restart       `yaml:"restart"`
	InactivityTimeout time.Duration `yaml:"inactivity_timeout"`
	HealthInterval    time.Duration `yaml:"health_interval"`
}

// Restart is how often a worker is started again.
type Restart struct {
	Max     int           `yaml:"max"`
	Backoff time.Duration `yaml:"backoff"`
}

// Schedule starts runs by itself.
type Schedule struct {
	Cron       string         `yaml:"cron"`
	TZ         string         `yaml:"tz"`
	Capability string         `yaml:"capability"`
	Args       map[string]any `yaml:"args"`
	Text       string         `yaml:"text"`
	Channel    string         `yaml:"channel"`
	Overlap    string         `yaml:"overlap"` // skip, queue or concurrent
	Missed     string         `yaml:"missed"`  // skip, once or all
}

// Slack is the connection to a workspace.
type Slack struct {
	Mode          string `yaml:"mode"` // socket or http
	AppToken      Secret `yaml:"app_token"`
	BotToken      Secret `yaml:"bot_token"`
	SigningSecret Secret `yaml:"signing_secret"`
	Command       string `yaml:"command"`
	APIURL        string `yaml:"api_url"`
}

// Discord is the connection to guilds.
type Discord struct {
	Token  Secret   `yaml:"token"`
	Guilds []string `yaml:"guilds"`
	APIURL string   `yaml:"api_url"`
}

// Channel is what a chat channel is for.
type Channel struct {
	Capability string `yaml:"capability"`
	Project    string `yaml:"project"`
}

// Permission grants rights to people.
type Permission struct {
	Who          []string `yaml:"who"`
	May          []string `yaml:"may"`
	Capabilities []string `yaml:"capabilities"` // absent: all
}

// Terminal is the web terminal.
type Terminal struct {
	TokenTTL   time.Duration `yaml:"token_ttl"`
	SessionTTL time.Duration `yaml:"session_ttl"`
}

// SetDefaults fills in what an agent has where nothing else is said.
func (a *Agent) SetDefaults() {
	a.Enabled = true
	a.OnBusy = "queue"
	a.IdleTimeout = 10 * time.Minute
	a.ApprovalTimeout = 5 * time.Minute
	a.OnTimeout = "deny"
	a.MaxOutputBytes = 1 << 30
	a.PermissionMode = "default"
	a.Workspace = "shared"
	a.OnLimit = OnLimit{Action: "offer", Max: 2}
}

// SetDefaults fills in what a worker has where nothing else is said.
func (w *Worker) SetDefaults() {
	w.OnBusy = "queue"
	w.Restart = Restart{Max: 3, Backoff: 5 * time.Second}
	w.HealthInterval = 30 * time.Second
}

// SetDefaults fills in what a schedule has where nothing else is said.
func (s *Schedule) SetDefaults() { s.TZ, s.Overlap, s.Missed = "UTC", "skip", "once" }

// SetDefaults lets a grant hold for all capabilities where it names none.
func (p *Permission) SetDefaults() { p.Capabilities = []string{"*"} }

// defaults is the configuration before anything was read.
func defaults(data string) *Config {
	return &Config{
		DataDir: data,
		Listen:  "127.0.0.1:4100",
		Engine: Engine{
			MaxConcurrent: 8, OnShutdown: "detach", OnLost: OnLost{Action: "fail", Max: 2},
			Retention: Retention{Logs: 720 * time.Hour, Executions: 8760 * time.Hour},
		},
		Budget:   Days{TZ: "UTC"},
		Projects: Projects{Exclude: []string{"node_modules", ".git"}},
		Slack:    Slack{Mode: "socket", Command: "/mill", APIURL: "https://slack.com/api/"},
		Discord:  Discord{APIURL: "https://discord.com/api/v9"},
		Terminal: Terminal{TokenTTL: 5 * time.Minute, SessionTTL: time.Hour},
	}
}

// demonstration is what can be run where no agent is configured.
func demonstration() map[string]Agent {
	out := map[string]Agent{}
	for id, adapter := range map[string]string{"demo": "demo", "shell": "command"} {
		a := Agent{Adapter: adapter}
		a.SetDefaults()
		out[id] = a
	}
	return out
}

// Scratch is the project of agents that are given no other; `serve` creates it.
func (c *Config) Scratch() string { return filepath.Join(c.DataDir, "scratch") }
