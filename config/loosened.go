package config

import (
	"fmt"
	"slices"

	"github.com/docker-ralph/docker-ralph/egress"
)

// Settings are values of a file by key.
type Settings map[string][]string

// settingsOf returns the values of a file.
func settingsOf(values []assigned) Settings {
	all := Settings{}
	for _, g := range values {
		if g.setting.setNamed == nil {
			all[g.setting.key] = append(all[g.setting.key], g.value)
		}
	}
	return all
}

// with returns the defaults with the values of a repository and of the user.
func (s Settings) with(user []assigned) Config {
	c, known := defaults(), schema().settings
	for key, values := range s {
		for _, v := range values {
			if k, is := known[key]; is {
				_ = k.set(&c, v, FromRepository) // another version may have written it
			}
		}
	}
	for _, g := range user {
		if g.setting.setNamed == nil {
			_ = g.setting.set(&c, g.value, FromUser) // merge has reported the error
		}
	}
	return c
}

// restrictions maps keys that restrict the agent, besides the limits, to whether now is looser than was.
func restrictions() map[string]func(was, now Config) bool {
	lacks := func(all, some []string) bool {
		return slices.ContainsFunc(some, func(v string) bool { return !slices.Contains(all, v) })
	}
	left := func(was, now string, strict ...string) bool { return was != now && slices.Contains(strict, was) }
	return map[string]func(was, now Config) bool{
		KeyChecks: func(was, now Config) bool { return lacks(now.Checks, was.Checks) },
		keyPolicy: func(was, now Config) bool {
			modes := []egress.Mode{egress.Deny, egress.Allowlist, egress.AllowAll}
			return slices.Index(modes, now.Sandbox.Network.Policy) > slices.Index(modes, was.Sandbox.Network.Policy)
		},
		keyPresets: func(was, now Config) bool { return lacks(was.Sandbox.Network.Presets, now.Sandbox.Network.Presets) },
		KeyAllowed: func(was, now Config) bool {
			return slices.ContainsFunc(now.Sandbox.Network.Allowed, func(v string) bool {
				return !slices.Contains(was.Sandbox.Network.Allowed, v) && privilegedRule(v, was.Sandbox.Network.Presets)
			})
		},
		keyNetwork:          func(was, now Config) bool { return left(was.Image.Network, now.Image.Network, BuildNetworkNone) },
		"agent.permissions": func(was, now Config) bool { return left(was.Agent.Permissions, now.Agent.Permissions, PermissionsAsk) },
		KeyWorkspace:        func(was, now Config) bool { return left(was.Sandbox.Workspace, now.Sandbox.Workspace, WorkspaceClone) },
		keyDriver: func(was, now Config) bool {
			return left(was.Sandbox.Driver, now.Sandbox.Driver, DriverSbx, DriverDockerSandbox)
		},
		keyRuntime: func(was, now Config) bool {
			return was.Sandbox.Runtime != "" && was.Sandbox.Runtime != now.Sandbox.Runtime
		},
	}
}

// loosened lists the keys that restrict the agent less than inForce, the settings of the repository's file
// before the command that may have changed them.
func loosened(inForce Settings, repository, user []assigned, origins map[string]Origin) []PrivilegedSetting {
	if inForce == nil {
		return nil
	}
	written := settingsOf(repository)
	was, now := inForce.with(user), written.with(user)
	keys := map[string]bool{}
	for key, looser := range restrictions() {
		keys[key] = looser(was, now)
	}
	for key, allows := range limits() {
		keys[key] = allows(now) > allows(was)
	}
	var list []PrivilegedSetting
	inEffect := false
	for key, looser := range keys {
		if !looser {
			continue
		}
		inEffect = inEffect || key == KeyAllowed || origins[key].Kind <= FromRepository
		for _, value := range written.orNone(key) {
			list = append(list, PrivilegedSetting{
				Key: key, Value: value, Origin: originOf(repository, key),
				Why: fmt.Sprintf("loosens %q, which was in force when the agent could change the file", inForce.orNone(key)),
			})
		}
	}
	if !inEffect {
		return nil
	}
	return list
}

// addLoosened adds settings that need approval for no other reason.
func (e *Effective) addLoosened(list []PrivilegedSetting) {
	e.Loosened = len(list) > 0
	for _, l := range list {
		if !slices.ContainsFunc(e.Privileged, func(p PrivilegedSetting) bool { return p.Key == l.Key && p.Value == l.Value }) {
			e.Privileged = append(e.Privileged, l)
		}
	}
	sortPrivileged(e.Privileged)
}

// orNone returns the values of a key; one that is empty for none.
func (s Settings) orNone(key string) []string {
	if len(s[key]) == 0 {
		return []string{""}
	}
	return s[key]
}

func originOf(values []assigned, key string) Origin {
	for _, g := range values {
		if g.setting.key == key {
			return g.origin
		}
	}
	return Origin{Kind: FromRepository, Name: repositoryFile}
}
