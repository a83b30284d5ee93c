// Package config reads what the user and the repository have configured:
// ralph.toml, the user's own file, the environment and flags. It says where
// each value is from, and which of them the user has to approve.
package config

import (
	"time"

	"github.com/docker-ralph/docker-ralph/egress"
)

// Config is the effective configuration: valid, typed, every default applied.
type Config struct {
	Agent   Agent
	Sandbox Sandbox
	Env     Env
	Image   Image
	Loop    Loop
	Notify  Notify
	// Receipts says what is done with the receipts of tasks.
	Receipts Receipts
	// Checks are shell commands that have to pass before a finished task
	// counts, in this order.
	Checks []string
	// Setup are shell commands that run once in a new clone, in this order.
	Setup []string
	// Include are patterns, as in .gitignore, of ignored files that clones get, each once.
	Include []string
	// Agents are the agents that the configuration defines, by name.
	Agents map[string]CustomAgent
	// Prices are the user's own prices of models, by name.
	Prices map[string]Price
}

// Receipts says what is done with the receipts of tasks, besides storing them. Only the user configures it.
type Receipts struct {
	// Notes adds them to their commits as git notes.
	Notes bool
}

// Loop says when a loop ends before its work is done. It is part of what the
// host hands over to the guest, as it was when the loop began.
type Loop struct {
	// MaxDuration bounds the time that all runs of the loop take; 0 means no
	// bound.
	MaxDuration time.Duration `json:"max_duration"`
	// MaxCostUSD bounds what the loop costs, in US dollars; 0 means no bound.
	MaxCostUSD float64 `json:"max_cost_usd"`
	// MaxTokens bounds the tokens of the loop, of every kind; 0 means no
	// bound.
	MaxTokens int64 `json:"max_tokens"`
	// MaxFailures is how many runs in a row may fail; 0 means any number.
	MaxFailures int `json:"max_failures"`
	// Stall is how many runs in a row may end without a commit and without a
	// finished task; 0 means any number. Nil means unset: see
	// [DefaultStall].
	Stall *int `json:"stall"`
	// Idle is how long an agent may print nothing; 0 means for ever.
	Idle time.Duration `json:"idle"`
	// MaxWait bounds a wait for a rate limit or an outage to end; 0 means no bound.
	MaxWait time.Duration `json:"max_wait"`
	// CheckTimeout bounds one check, set by timeout of [checks]; 0 means the bound of a run.
	CheckTimeout time.Duration `json:"check_timeout"`
	// Grace is how long an agent may take to exit after its final result.
	Grace time.Duration `json:"grace"`
}

// DefaultStall is the bound of a loop without a number of iterations, when
// nobody has set one. A loop with a number has no such limit by default.
const DefaultStall = 3

// CustomAgent is a coding agent that the configuration defines.
type CustomAgent struct {
	// Command is the program and its arguments. In them {prompt} stands for
	// the prompt's text, {prompt_file} for a file that holds it, and {model}
	// for the model. Without any of the first two the agent reads the prompt
	// from its standard input.
	Command []string `json:"command"`
	// Stream is how to read the agent's output: "claude", "codex", "gemini",
	// "opencode", "copilot" or "text".
	Stream string `json:"stream"`
	// Keys is the API whose key and endpoint the agent gets: "anthropic", "openai", or
	// empty for none.
	Keys string `json:"keys,omitempty"`
}

// KeyAgent returns the name under which packages credential and egress know the keys and
// the hosts of the configured agent; empty for none.
func (c Config) KeyAgent() string {
	if custom, ok := c.Agents[c.Agent.Name]; ok {
		return custom.Keys
	}
	return c.Agent.Name
}

// Agent says which coding agent runs, and how.
type Agent struct {
	// Name is the agent's name, e.g. "claude" or "shell". Whether such an
	// agent exists is for its package to say.
	Name string
	// Model is the model that the agent is asked to use; empty means the
	// agent's own default.
	Model string
	// Permissions is PermissionsBypass or PermissionsAsk.
	Permissions string
	// EndpointPaths are requested with the key from an endpoint of the user's own,
	// besides the paths that the agent needs.
	EndpointPaths []string
}

// What the agent may do without asking, inside a sandbox.
const (
	PermissionsBypass = "bypass"
	PermissionsAsk    = "ask"
)

// Sandbox says how the sandbox is made.
type Sandbox struct {
	// Enabled is true in every configuration for a sandbox; false in a source
	// is an error there, because nothing is ever run without one silently.
	Enabled bool
	// Driver is DriverAuto, DriverSbx, DriverDockerSandbox or
	// DriverContainer.
	Driver string
	// Image is used as it is instead of the agent's image; empty means that
	// the agent's image is built.
	Image string
	// Reuse keeps the sandbox between dispatches; false means a fresh one per
	// dispatch, removed afterwards.
	Reuse bool
	// Workspace is WorkspaceAuto, WorkspaceLive or WorkspaceClone.
	Workspace string
	// GitToken is what a token for the repository's git host may be used for:
	// GitTokenNone, GitTokenRead or GitTokenWrite. The sandbox never has it.
	GitToken string
	// Sign has commits in the sandbox signed by the user's ssh-agent, which the
	// sandbox does not reach itself.
	Sign bool
	// ReadOnly makes the root file system of a container read-only.
	ReadOnly bool
	// Runtime is the engine's runtime for containers, such as "runsc"; empty for
	// the engine's own choice.
	Runtime string
	// CA holds the certificates of sandbox.ca in PEM, which the agent image and the proxy
	// trust besides their own.
	CA string
	// Network says what a container reaches.
	Network Network
	// Resources bounds the sandbox.
	Resources Resources
}

// Network says which hosts a sandbox reaches.
type Network struct {
	// Policy is the kind of the policy.
	Policy egress.Mode
	// Presets are names of lists of hosts that come with docker-ralph.
	Presets []string
	// Allowed are rules for hosts besides those, each once, as they are written.
	Allowed []string
}

// What a sandbox has of the worktree.
const (
	// WorkspaceAuto is WorkspaceClone, but WorkspaceLive with DriverDockerSandbox.
	WorkspaceAuto = "auto"
	// WorkspaceLive is the worktree itself, with its git directory.
	WorkspaceLive = "live"
	// WorkspaceClone is a clone in a volume on the engine, or on the disk of a microVM.
	WorkspaceClone = "clone"
)

// What a token for a git host may be used for.
const (
	// GitTokenNone is nothing.
	GitTokenNone = "none"
	// GitTokenRead is fetching from the repository's origin.
	GitTokenRead = "read"
	// GitTokenWrite is pushing to it as well.
	GitTokenWrite = "write"
)

// The drivers that can be asked for.
const (
	DriverAuto          = "auto"
	DriverSbx           = "sbx"
	DriverDockerSandbox = "docker-sandbox"
	DriverContainer     = "container"
)

// Resources bounds what a sandbox takes of the machine.
type Resources struct {
	// Memory is in bytes.
	Memory int64
	// CPUs is a number of processors, possibly with a fraction.
	CPUs float64
	// Pids is the greatest number of processes and threads.
	Pids int64
	// Tmp and Shm are the sizes of /tmp and /dev/shm of a container, in bytes.
	Tmp, Shm int64
	// Timeout bounds one run of the agent.
	Timeout time.Duration
}

// NanoCPUs is CPUs in the Engine API's unit, billionths of a processor.
func (r Resources) NanoCPUs() int64 { return int64(r.CPUs*1e9 + 0.5) }

// Env says which of the host's environment variables reach the agent.
type Env struct {
	// Pass lists names, each once, in the order in which they were first
	// given. A name that is unset on the host is skipped without a word.
	Pass []string
}

// Image says what the agent's image is built on.
type Image struct {
	// Base is the upstream base; empty means the agent's own default.
	Base string
	// Network is the network of the build steps that the repository describes:
	// BuildNetworkDefault or BuildNetworkNone.
	Network string
}

// The networks of build steps.
const (
	// BuildNetworkDefault is the one that the engine's builder has by default.
	BuildNetworkDefault = "default"
	BuildNetworkNone    = "none"
)
