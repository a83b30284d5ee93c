package config

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/docker-ralph/docker-ralph/credential"
	"github.com/docker-ralph/docker-ralph/egress"
)

// Setting is one value of the repository's file that widens its powers.
type Setting struct {
	Key    string // e.g. "env.pass"
	Value  string // e.g. "MY_VARIABLE"
	Why    string // what it does, as a clause
	Origin Origin
}

// wider is a key with values that widen the repository's powers.
type wider struct {
	why    string            // what such a value does, as a clause
	widens func(string) bool // nil for every value but the empty one
}

// widerKeys are the keys that can widen. All others only choose among what is
// safe anyway.
func widerKeys() map[string]wider {
	is := func(one string) func(string) bool { return func(v string) bool { return v == one } }
	return map[string]wider{
		keyAgent: {"runs an agent that gets keys of yours for its model into containers, where it can read them", widensAgent},
		keyPaths: {why: "sends your key with the agent's requests for this path of your own endpoint"},
		keyPass:  {why: "gives the agent this variable of your environment"},
		keyImage: {why: "runs the agent in an image that was not built here"},
		keyBase:  {why: "builds the agent's image on this one"},

		keyDriver: {"uses containers, though a microVM may be at hand, which isolates better", is(DriverContainer)},

		keyRuntime:  {why: "runs containers with another runtime than the engine's own"},
		keyReadOnly: {"makes the root file system of containers writable", is("false")},
		keyGit:      {"lets the agent write into the git directory, hooks and configuration included", is(GitDirect)},
		keyGitToken: {"lets git in the sandbox use your token for the repository's host", func(v string) bool { return v != GitTokenNone }},
		keySign:     {"has everything that git signs in the sandbox signed with your ssh key", is("true")},
		keyPolicy:   {"lets the agent reach every public host", is(string(egress.AllowAll))},
		keyPresets:  {"lets the agent reach more than by default", widensPresets},
		KeyAllowed:  {"lets the agent reach this host", widensAllowed},
	}
}

// widensAgent tells whether keys go in that stay outside with the default agent.
func widensAgent(name string) bool { return len(credential.Unkept(name)) > 0 }

// asks tells whether a value widens.
func (w wider) asks(v string) bool {
	return w.why != "" && v != "" && (w.widens == nil || w.widens(v))
}

// widening compares the repository's values with the user's. What the user's
// own file says too, or says differently, needs no approval. A variable or a
// flag that wins for once does not make the rest of the list shorter, so that
// what is approved does not depend on it; but if it leaves nothing in effect,
// there is nothing to ask.
func widening(repository, user []given, origins map[string]Origin) []Setting {
	wider := widerKeys()
	covered := map[string]bool{}
	for _, g := range user {
		covered[identity(g)] = true
	}
	var list []Setting
	inEffect := false
	for _, g := range repository {
		key, id := g.setting.key, identity(g)
		if covered[id] || !wider[key].asks(g.value) {
			continue
		}
		covered[id] = true // a name given twice
		list = append(list, Setting{Key: key, Value: g.value, Why: wider[key].why, Origin: g.origin})
		inEffect = inEffect || origins[id].Kind == FromRepository
	}
	if !inEffect {
		return nil
	}
	slices.SortFunc(list, func(a, b Setting) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Value, b.Value))
	})
	return list
}

// identity is the key, and of a list the item too.
func identity(g given) string {
	if g.setting.form == names {
		return g.setting.key + "." + g.value
	}
	return g.setting.key
}

// WideningDigest identifies the content of Widening in this work tree: keys
// and values, in whatever order and place they stand. It is empty if there is
// nothing to approve.
func (e Effective) WideningDigest() string { return e.WideningDigestAt(e.root) }

// WideningDigestAt is what [Effective.WideningDigest] would be if the same
// content were in the work tree with this root.
func (e Effective) WideningDigestAt(root string) string {
	if len(e.Widening) == 0 {
		return ""
	}
	// Every string is quoted, so that no value can look like two.
	content := []string{"docker-ralph widening 1", filepath.Clean(root)}
	for _, s := range e.Widening {
		content = append(content, s.Key, s.Value)
	}
	hash := sha256.New()
	for _, part := range content {
		_, _ = hash.Write([]byte(strconv.Quote(part) + "\n"))
	}
	return "sha256:" + hex.EncodeToString(hash.Sum(nil))
}

// UntrustedError says that the repository asks for what the user has not
// approved.
type UntrustedError struct {
	Root     string
	Settings []Setting
}

// Error lists what is asked for, where, and how to approve it.
func (e *UntrustedError) Error() string {
	var b strings.Builder
	b.WriteString("this repository asks for more than it gets by itself, and you have not approved it:\n")
	for _, s := range e.Settings {
		_, _ = fmt.Fprintf(&b, "  %s = %q %s (%s)\n", s.Key, s.Value, s.Why, s.Origin)
	}
	b.WriteString("if you want that, approve it with: docker ralph trust")
	return b.String()
}
