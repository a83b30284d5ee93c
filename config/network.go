package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/pattern"
)

// DefaultPresets are what a sandbox reaches when nobody has said: the agent's
// model, git hosts, and package registries.
func DefaultPresets() []string { return []string{egress.AgentPreset, "git", "packages"} }

// setPresets stores the whole of sandbox.network.presets. An empty list means
// none.
func (c *Config) setPresets(v string) error {
	names, err := decodeTexts(v)
	if err != nil {
		return err
	}
	known, err := egress.Presets()
	if err != nil {
		return err
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return fmt.Errorf("%q: %w", name, checkChoice(name, known...))
		}
	}
	c.Sandbox.Network.Presets = names
	return nil
}

// runtimeName is what an engine takes for the name of a runtime, and what
// containerd has as well, such as "io.containerd.runsc.v1".
var runtimeName = pattern.New(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$`)

func checkRuntime(v string) error {
	if v != "" && !runtimeName().MatchString(v) {
		return errors.New(`it is the name of a runtime that the engine has, such as "runsc"`)
	}
	return nil
}

// Policy is the network policy of the configuration, with the origin of each
// rule.
func (e Effective) Policy() (egress.Policy, error) {
	n := e.Sandbox.Network
	var own []egress.Entry
	for _, text := range n.Allowed {
		rule, err := egress.ParseRule(text)
		if err != nil {
			return egress.Policy{}, err
		}
		own = append(own, egress.Entry{Rule: rule, Origin: e.Origins[KeyAllowed+"."+text].String()})
	}
	return egress.New(n.Policy, e.Agent.Name, n.Presets, own)
}

// widensPresets tells whether presets have hosts that those by default have not.
func widensPresets(v string) bool {
	names, err := decodeTexts(v)
	if err != nil {
		return true
	}
	asked, err := presetRules(names)
	byDefault, defaultErr := presetRules(DefaultPresets())
	return err != nil || defaultErr != nil || slices.ContainsFunc(asked, func(e egress.Entry) bool {
		return !slices.ContainsFunc(byDefault, func(d egress.Entry) bool { return d.Rule.String() == e.Rule.String() })
	})
}

// presetRules are those of the presets that do not depend on the agent.
func presetRules(names []string) ([]egress.Entry, error) {
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == egress.AgentPreset })
	policy, err := egress.New(egress.Allowlist, "", names, nil)
	return policy.Rules, err
}

// widensAllowed tells whether a rule allows what is not allowed by default for
// any agent.
func widensAllowed(v string) bool {
	rule, err := egress.ParseRule(v)
	if err != nil || len(rule.Ranges) > 0 || strings.HasPrefix(rule.Host, "*") || rule.Port != 0 {
		return true
	}
	rules, err := presetRules(DefaultPresets())
	return err != nil || !egress.Policy{Mode: egress.Allowlist, Rules: rules}.Decide(rule.Host, 443).Allowed
}

// NetworkAsked tells whether anybody has asked for a network policy: whatever is
// set below [sandbox.network], in any source.
func (e Effective) NetworkAsked() bool {
	for key, origin := range e.Origins {
		network := key == keyPolicy || key == keyPresets || key == KeyAllowed || strings.HasPrefix(key, KeyAllowed+".")
		if network && origin.Kind != FromDefault {
			return true
		}
	}
	return false
}
