package config

import (
	"encoding/json"
	"fmt"

	"github.com/docker-ralph/docker-ralph/hint"
)

// GuestEnv is the environment variable by which the host hands the guest
// its part of the configuration at every dispatch. The guest never reads
// ralph.toml in a sandbox: the agent could change it there.
const GuestEnv = "RALPH_CONFIG"

// Guest is the part of the configuration that ralph needs where the agent
// runs.
type Guest struct {
	// Agent is the name of the coding agent, e.g. "claude" or "shell".
	Agent string `json:"agent"`
	// Model is the default for --model; empty means the agent's own default.
	Model string `json:"model,omitempty"`
	// Permissions is "bypass" or "ask".
	Permissions string `json:"permissions"`
	// Sandboxed says that the process runs inside a sandbox of ours, where
	// the agent may run without permission prompts.
	Sandboxed bool `json:"sandboxed"`
	// TimeoutSeconds bounds one run of the agent; 0 means no bound.
	TimeoutSeconds int64 `json:"timeout_seconds,omitempty"`
	// Loop bounds the loop as a whole.
	Loop Loop `json:"loop"`
	// Checks are shell commands that have to pass before a finished task
	// counts; ralph runs them in the worktree's root.
	Checks []string `json:"checks,omitempty"`
	// CustomAgents are the agents that the configuration defines, by name.
	CustomAgents map[string]CustomAgent `json:"custom_agents,omitempty"`
	// Prices are the user's own prices of models, by name.
	Prices map[string]Price `json:"prices,omitempty"`
}

// maxGuest bounds the value in bytes: one variable of a Linux process may have
// 128 KiB.
const maxGuest = 64 << 10

// Encode returns the value for [GuestEnv].
func (g Guest) Encode() (string, error) {
	b, err := json.Marshal(g)
	if err != nil {
		return "", fmt.Errorf("encoding the configuration: %w", err)
	}
	if len(b) > maxGuest {
		return "", hint.Wrap(fmt.Errorf("the configuration of checks and agents is larger than %d KiB", maxGuest>>10), "move long commands to scripts")
	}
	return string(b), nil
}

// DecodeGuest reads a value of [GuestEnv]. Bounds that it does not name have
// their defaults.
func DecodeGuest(value string) (Guest, error) {
	g := Guest{Loop: defaults().Loop}
	if err := json.Unmarshal([]byte(value), &g); err != nil {
		return Guest{}, fmt.Errorf("reading %s: %w", GuestEnv, err)
	}
	return g, nil
}
