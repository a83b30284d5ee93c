package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/lazyregexp"
)

// DefaultPresets are the agent's model, git hosts and package registries.
func DefaultPresets() []string { return []string{egress.AgentPreset, "git", "packages"} }

// setPresets replaces sandbox.network.presets. An empty list means none.
func (c *Config) setPresets(v string) error {
	names, err := decodeStrings(v)
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
var runtimeName = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$`)

func checkRuntime(v string) error {
	if v != "" && !runtimeName().MatchString(v) {
		return errors.New(`invalid runtime name, such as "runsc"`)
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
	return egress.New(n.Policy, e.KeyAgent(), n.Presets, own)
}

// privilegedPresets reports whether presets allow hosts that the default ones
// do not.
func privilegedPresets(v string) bool {
	names, err := decodeStrings(v)
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

// privilegedRule reports whether a rule allows more than the default presets.
func privilegedRule(v string, presets []string) bool {
	rule, err := egress.ParseRule(v)
	if err != nil || len(rule.Ranges) > 0 || strings.HasPrefix(rule.Host, "*") || rule.Port != 0 {
		return true
	}
	rules, err := presetRules(presets)
	return err != nil || !egress.Policy{Mode: egress.Allowlist, Rules: rules}.Decide(rule.Host, 443).Allowed
}

// NetworkConfigured reports whether any source sets a key of [sandbox.network].
func (e Effective) NetworkConfigured() bool {
	for key, origin := range e.Origins {
		network := key == keyPolicy || key == keyPresets || key == KeyAllowed || strings.HasPrefix(key, KeyAllowed+".")
		if network && origin.Kind != FromDefault {
			return true
		}
	}
	return false
}
