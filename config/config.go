// Package config reads what the user and the repository have configured:
// ralph.toml, the user's own file, the environment and flags. It says where
// each value is from, and which of them the user has to approve.
package config

import "time"

// Config is the effective configuration: valid, typed, every default applied.
type Config struct {
	Agent   Agent
	Sandbox Sandbox
	Env     Env
	Image   Image
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
	// Resources bounds the sandbox.
	Resources Resources
}

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
}
