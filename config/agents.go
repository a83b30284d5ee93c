package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/credential"
)

// BuiltinAgents are the agents that need no definition, sorted.
func BuiltinAgents() []string {
	return []string{"claude", "codex", "copilot", "crush", "gemini", "opencode", "shell"}
}

// agentSettings are the keys of [agents.NAME].
func agentSettings() []setting {
	return []setting{
		{key: tableAgents + "." + anyName + ".command", form: list, setNamed: func(c *Config, name, v string, _ OriginKind) error {
			return c.setAgent(name, func(a *CustomAgent) (err error) {
				if a.Command, err = decodeStrings(v); err == nil && (len(a.Command) == 0 || a.Command[0] == "") {
					err = errors.New(`must name a program, such as ["my-agent", "--yes", "{prompt}"]`)
				}
				return err
			})
		}},
		{key: tableAgents + "." + anyName + ".stream", form: stringForm, setNamed: func(c *Config, name, v string, _ OriginKind) error {
			return c.setAgent(name, func(a *CustomAgent) error {
				a.Stream = v
				return checkChoice(v, "claude", "codex", "gemini", "opencode", "copilot", "text")
			})
		}},
		{key: tableAgents + "." + anyName + ".keys", form: stringForm, setNamed: func(c *Config, name, v string, _ OriginKind) error {
			return c.setAgent(name, func(a *CustomAgent) error {
				a.Keys = v
				return checkChoice(v, credential.APIs()...)
			})
		}},
	}
}

// setAgent changes one agent.
func (c *Config) setAgent(name string, set func(*CustomAgent) error) error {
	switch err := checkAgent(name); {
	case err != nil:
		return fmt.Errorf("invalid agent name: %w", err)
	case slices.Contains(BuiltinAgents(), name):
		return fmt.Errorf("agent name %s is reserved for a built-in agent", name)
	}
	a, defined := c.Agents[name]
	if !defined {
		a.Stream = "text"
	}
	if err := set(&a); err != nil {
		return err
	}
	if c.Agents == nil {
		c.Agents = map[string]CustomAgent{}
	}
	c.Agents[name] = a
	return nil
}

// resetAgents removes the agents that a later source redefines.
func (m *merger) resetAgents(values []assigned) {
	for _, g := range values {
		if rest, isAgent := strings.CutPrefix(g.setting.key, tableAgents+"."); isAgent {
			name, _, _ := strings.Cut(rest, ".")
			delete(m.e.Agents, name)
		}
	}
}

// requireCommands reports agents without a command.
func (m *merger) requireCommands() {
	for _, name := range slices.Sorted(maps.Keys(m.e.Agents)) {
		if len(m.e.Agents[name].Command) == 0 {
			m.problems = append(m.problems, fmt.Errorf(`[agents.%s]: missing command, such as command = ["my-agent", "{prompt}"]`, name))
		}
	}
}

// setChecks replaces the checks.
func (c *Config) setChecks(v string) (err error) {
	c.Checks, err = decodeCommands(v)
	return err
}

// decodeCommands decodes a list of shell commands.
func decodeCommands(v string) ([]string, error) {
	commands, err := decodeStrings(v)
	if err != nil {
		return nil, err
	}
	for _, command := range commands {
		if strings.TrimSpace(command) == "" {
			return nil, errors.New("a command must not be empty")
		}
	}
	return commands, nil
}

// decodeStrings decodes the value of a list setting.
func decodeStrings(v string) (list []string, err error) {
	if err := json.Unmarshal([]byte(v), &list); err != nil {
		return nil, fmt.Errorf("invalid list: %w", err)
	}
	for _, t := range list {
		if strings.ContainsRune(t, 0) {
			return nil, errors.New("contains a NUL character")
		}
	}
	return list, nil
}
