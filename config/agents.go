package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// BuiltinAgents are the agents that need no definition, sorted.
func BuiltinAgents() []string {
	return []string{"claude", "codex", "copilot", "crush", "gemini", "opencode", "shell"}
}

// agentSettings are the keys of [agents.NAME].
func agentSettings() []setting {
	return []setting{
		{key: tableAgents + "." + anyName + ".command", form: list, setNamed: func(c *Config, name, v string) error {
			return c.setAgent(name, func(a *CustomAgent) (err error) {
				if a.Command, err = decodeTexts(v); err == nil && (len(a.Command) == 0 || a.Command[0] == "") {
					err = errors.New(`it has to name a program, as ["my-agent", "--yes", "{prompt}"]`)
				}
				return err
			})
		}},
		{key: tableAgents + "." + anyName + ".stream", form: text, setNamed: func(c *Config, name, v string) error {
			return c.setAgent(name, func(a *CustomAgent) error {
				a.Stream = v
				return checkChoice(v, "claude", "codex", "gemini", "opencode", "copilot", "text")
			})
		}},
	}
}

// setAgent changes one agent.
func (c *Config) setAgent(name string, set func(*CustomAgent) error) error {
	switch err := checkAgent(name); {
	case err != nil:
		return err
	case slices.Contains(BuiltinAgents(), name):
		return fmt.Errorf("the agent %s is built in; choose another name", name)
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

// forgetAgents drops the agents that a later source defines anew.
func (m *merger) forgetAgents(values []given) {
	for _, g := range values {
		if g.setting.setNamed != nil {
			delete(m.e.Agents, strings.Split(g.setting.key, ".")[1])
		}
	}
}

// requireCommands refuses agents that nothing can be started for.
func (m *merger) requireCommands() {
	for _, name := range slices.Sorted(maps.Keys(m.e.Agents)) {
		if len(m.e.Agents[name].Command) == 0 {
			m.problems = append(m.problems, fmt.Errorf(`[agents.%s] has no command: write e.g. command = ["my-agent", "{prompt}"]`, name))
		}
	}
}

// setChecks replaces the checks.
func (c *Config) setChecks(v string) (err error) {
	if c.Checks, err = decodeTexts(v); err != nil {
		return err
	}
	for _, command := range c.Checks {
		if strings.TrimSpace(command) == "" {
			return errors.New("a check is a shell command, and one of these is empty")
		}
	}
	return nil
}

// decodeTexts reads what list settings hold.
func decodeTexts(v string) (texts []string, err error) {
	if err := json.Unmarshal([]byte(v), &texts); err != nil {
		return nil, fmt.Errorf("reading a list: %w", err)
	}
	for _, t := range texts {
		if strings.ContainsRune(t, 0) {
			return nil, errors.New("it holds a NUL character")
		}
	}
	return texts, nil
}
