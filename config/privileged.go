package config

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/docker-ralph/docker-ralph/credential"
	"github.com/docker-ralph/docker-ralph/egress"
)

// PrivilegedSetting is a value of the repository's file that weakens the
// isolation of the sandbox.
type PrivilegedSetting struct {
	Key    string // e.g. "env.pass"
	Value  string // e.g. "MY_VARIABLE"
	Why    string // the effect, as a clause
	Origin Origin
}

// privilege is a key with values that need approval.
type privilege struct {
	why    string            // the effect of such a value, as a clause
	needed func(string) bool // nil: any value but the empty one
}

// privileges are the keys with values that need approval: those that loosen what the
// defaults and the user's file set. All others choose among safe values.
func privileges(inForce Config) map[string]privilege {
	all := limitPrivileges(inForce)
	maps.Copy(all, isolationPrivileges(inForce))
	return all
}

func isolationPrivileges(inForce Config) map[string]privilege {
	is := func(one string) func(string) bool { return func(v string) bool { return v == one } }
	return map[string]privilege{
		keyAgent:   {"runs an agent that can read the API keys of its model in a container", privilegedAgent},
		keyPaths:   {why: "sends your key with requests for this path of your custom endpoint"},
		keyPass:    {why: "passes this environment variable to the agent"},
		keyInclude: {why: "copies files that git ignores, and that match this pattern, to a clone in a sandbox"},

		keyImage: {why: "runs the agent in an image that was not built on this machine"},
		keyBase:  {why: "builds the agent image from this base image"},

		keyDriver: {"uses containers even if microVMs are available", is(DriverContainer)},

		keyRuntime:   {why: "runs containers with a runtime other than the engine's default"},
		keyReadOnly:  {"makes the root filesystem of containers writable", is("false")},
		KeyWorkspace: {"lets the agent write to your files and your git directory, including hooks and configuration", is(WorkspaceLive)},
		keyGitToken:  {"lets git in the sandbox use your token for the git host", func(v string) bool { return v != GitTokenNone }},
		keySign:      {"signs commits made in the sandbox with your ssh key", is("true")},
		keyPolicy:    {"allows connections to every public host", is(string(egress.AllowAll))},
		keyPresets:   {"allows connections to more hosts than by default", privilegedPresets},
		KeyAllowed:   {"allows connections to this host", func(v string) bool { return privilegedRule(v, inForce.Sandbox.Network.Presets) }},
	}
}

// privilegedAgent reports whether the agent gets keys that stay on the host
// with the default agent.
func privilegedAgent(name string) bool { return len(credential.ExposedKeys(name)) > 0 }

// needs reports whether a value needs approval.
func (p privilege) needs(v string) bool {
	return p.why != "" && v != "" && (p.needed == nil || p.needed(v))
}

// privilegedSettings lists the repository's values that need approval. A key in
// the user's file needs none. A variable or flag that overrides a value does not
// shorten the list, so that the approval does not depend on it; but if nothing
// privileged is in effect, the list is empty.
func privilegedSettings(repository, user []assigned, origins map[string]Origin) []PrivilegedSetting {
	inForce := defaults()
	covered := map[string]bool{}
	for _, g := range user {
		covered[identity(g)] = true
		_ = g.setting.set(&inForce, g.value, FromUser) // merge has reported the error
	}
	known := privileges(inForce)
	var list []PrivilegedSetting
	inEffect := false
	for _, g := range repository {
		key, id := g.setting.key, identity(g)
		if covered[id] || !known[key].needs(g.value) {
			continue
		}
		covered[id] = true // a duplicate
		list = append(list, PrivilegedSetting{Key: key, Value: g.value, Why: known[key].why, Origin: g.origin})
		inEffect = inEffect || origins[id].Kind == FromRepository
	}
	if !inEffect {
		return nil
	}
	sortPrivileged(list)
	return list
}

func sortPrivileged(list []PrivilegedSetting) {
	slices.SortFunc(list, func(a, b PrivilegedSetting) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Value, b.Value))
	})
}

// identity is the key, and of a list the item too.
func identity(g assigned) string {
	if g.setting.form == names {
		return g.setting.key + "." + g.value
	}
	return g.setting.key
}

// PrivilegedDigest identifies the keys and values of Privileged in this worktree,
// independent of order and place. It is empty if there is nothing to approve.
func (e Effective) PrivilegedDigest() string { return e.PrivilegedDigestAt(e.root) }

// PrivilegedDigestAt is [Effective.PrivilegedDigest] for the worktree with this
// root.
func (e Effective) PrivilegedDigestAt(root string) string {
	if len(e.Privileged) == 0 {
		return ""
	}
	// Every string is quoted, so that no value can look like two.
	content := []string{"docker-ralph widening 1", filepath.Clean(root)}
	for _, s := range e.Privileged {
		content = append(content, s.Key, s.Value)
	}
	hash := sha256.New()
	for _, part := range content {
		_, _ = hash.Write([]byte(strconv.Quote(part) + "\n"))
	}
	return "sha256:" + hex.EncodeToString(hash.Sum(nil))
}

// UntrustedError reports privileged settings that the user has not approved.
type UntrustedError struct {
	Root     string
	Settings []PrivilegedSetting
}

// Error lists the settings and their origins.
func (e *UntrustedError) Error() string {
	settings := make([]string, len(e.Settings))
	for i, s := range e.Settings {
		settings[i] = fmt.Sprintf("%s = %q (%s)", s.Key, s.Value, s.Origin)
		if s.Value == "" {
			settings[i] = fmt.Sprintf("%s is not set any more (%s)", s.Key, s.Origin.Name)
		}
	}
	return "privileged settings are not approved: " + strings.Join(settings, ", ")
}
