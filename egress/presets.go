package egress

import (
	"bytes"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

//go:embed presets.toml
var presetsFile []byte

// AgentPreset is the preset that depends on the agent.
const AgentPreset = "agent"

type presets struct {
	Agent  map[string]agentPreset `toml:"agent"`
	Preset map[string]preset      `toml:"preset"`
}

type agentPreset struct {
	Model []string `toml:"model"`
	Other []string `toml:"other"`
}

type preset struct {
	Hosts   []string `toml:"hosts"`
	Include []string `toml:"include"`
}

func readPresets(file []byte) (presets, error) {
	var p presets
	d := toml.NewDecoder(bytes.NewReader(file)).DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return presets{}, fmt.Errorf("reading the network presets: %w", err)
	}
	return p, nil
}

// Presets returns the names that "[sandbox.network] presets" may have.
func Presets() ([]string, error) {
	p, err := readPresets(presetsFile)
	if err != nil {
		return nil, err
	}
	return p.names(), nil
}

func (p presets) names() []string {
	return slices.Sorted(slices.Values(append(slices.Collect(maps.Keys(p.Preset)), AgentPreset)))
}

// New makes the policy of a sandbox from what was configured for it: the
// presets by name, and the user's own rules. An agent that is not known has no
// hosts of its own. Under Deny what is left is the agent's model, and of own
// what is marked as such.
func New(mode Mode, agent string, names []string, own []Entry) (Policy, error) {
	if _, err := ParseMode(string(mode)); err != nil {
		return Policy{}, fmt.Errorf("invalid network policy %q: %w", mode, err)
	}
	p, err := readPresets(presetsFile)
	if err != nil {
		return Policy{}, err
	}
	if mode == Deny {
		names = nil
	}
	var entries []Entry
	for _, name := range names {
		more, err := p.entries(name, agent)
		if err != nil {
			return Policy{}, err
		}
		entries = append(entries, more...)
	}
	if mode == Deny {
		if entries, err = p.agentEntries(agent); err != nil {
			return Policy{}, err
		}
	}
	policy := Policy{Mode: mode, Rules: []Entry{}}
	for _, e := range append(entries, own...) {
		if mode == Deny && !e.Model || slices.ContainsFunc(policy.Rules, e.repeats) {
			continue
		}
		policy.Rules = append(policy.Rules, e)
	}
	return policy, nil
}

// repeats reports whether the entry adds nothing to an earlier one.
func (e Entry) repeats(earlier Entry) bool {
	return e.Rule.String() == earlier.Rule.String() && (earlier.Model || !e.Model)
}

func (p presets) entries(name, agent string) ([]Entry, error) {
	if name == AgentPreset {
		return p.agentEntries(agent)
	}
	found, ok := p.Preset[name]
	if !ok {
		return nil, fmt.Errorf("unknown network preset %q: use %s", name, strings.Join(p.names(), ", "))
	}
	entries, err := hostEntries(found.Hosts, "preset "+name, false)
	if err != nil {
		return nil, err
	}
	for _, part := range found.Include {
		// One level is enough, and cannot go round in circles.
		more, err := hostEntries(p.Preset[part].Hosts, "preset "+name, false)
		if err != nil {
			return nil, err
		}
		entries = append(entries, more...)
	}
	return entries, nil
}

func (p presets) agentEntries(agent string) ([]Entry, error) {
	origin := "preset agent (" + agent + ")"
	entries, err := hostEntries(p.Agent[agent].Model, origin, true)
	if err != nil {
		return nil, err
	}
	other, err := hostEntries(p.Agent[agent].Other, origin, false)
	return append(entries, other...), err
}

func hostEntries(hosts []string, origin string, model bool) ([]Entry, error) {
	var entries []Entry
	for _, host := range hosts {
		rule, err := ParseRule(host)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %q: %w", origin, host, err)
		}
		entries = append(entries, Entry{Rule: rule, Origin: origin, Model: model})
	}
	return entries, nil
}
