package config

import (
	"errors"
	"time"
)

// Sources says where the configuration is read from. Later beats earlier:
// defaults, the repository's file, the user's file, the environment, the
// command line.
type Sources struct {
	// Root is the work tree's root, where ralph.toml lies; empty for none.
	Root string
	// UserDir is the plugin's folder below Docker's configuration folder,
	// where config.toml lies; empty for none.
	UserDir string
	// Getenv looks an environment variable up; nil for no environment.
	Getenv func(string) string
	// Overrides are the command line's values.
	Overrides Overrides
}

// Overrides are values from the command line; nil means not given.
type Overrides struct {
	Agent   *string        // --agent
	Model   *string        // --model
	Driver  *string        // --driver
	Image   *string        // --image
	Base    *string        // --base
	Memory  *string        // --memory, as "8g"
	CPUs    *string        // --cpus, as "1.5"
	Timeout *time.Duration // --timeout, at least a second
	Env     []string       // --env, names only
}

// Effective is the configuration and where each of its values is from.
type Effective struct {
	Config
	// Origins maps a key such as "sandbox.image" to the source of its value.
	// Every key has one. "env.pass" has the last source that added a name, and
	// "env.pass.NAME" the first one that gave this name.
	Origins map[string]Origin
	// Widening lists what the repository's file asks for that needs the
	// user's approval; empty when there is nothing to approve. Unless it is
	// approved (see TrustStore.Require), the configuration must not be used.
	Widening []Setting

	root string
}

// Setting is one value of the repository's file that widens its powers.
type Setting struct {
	Key    string // e.g. "env.pass"
	Value  string // e.g. "MY_VARIABLE"
	Why    string // what it allows, as a clause
	Origin Origin
}

// Guest is the part of the configuration that goes to where the agent runs.
func (e Effective) Guest(sandboxed bool) Guest {
	return Guest{
		Agent:       e.Agent.Name,
		Model:       e.Agent.Model,
		Permissions: e.Agent.Permissions,
		Sandboxed:   sandboxed,
	}
}

// Load reads, checks and merges all sources.
func Load(s Sources) (Effective, error) {
	return Effective{}, errors.New("reading the configuration: not built yet")
}

// WideningDigest identifies the content of Widening for this work tree.
func (e Effective) WideningDigest() string { return "" }
