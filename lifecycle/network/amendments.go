package network

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/moby/sys/atomicwriter"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

// amendments are the rules of "docker ralph network". They are not part of a
// sandbox's spec, so they do not recreate it.
type amendments struct {
	Allowed []egress.Rule `json:"allowed"`
	Denied  []egress.Rule `json:"denied"`
}

// networkOrigin is the origin of these rules in lists.
const networkOrigin = "docker ralph network"

// AmendmentsPath returns the file of a scope. Its name has a hash because different
// scopes can have the same sandbox name.
func AmendmentsPath(h host.Host, s gitrepo.Scope) (string, error) {
	name, err := s.SandboxName()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(s.Repo + "\x00" + s.Branch))
	return filepath.Join(h.StateDir, "network", name+"-"+hex.EncodeToString(sum[:6])+".json"), nil
}

func readAmendments(h host.Host, s gitrepo.Scope) (a amendments, err error) {
	path, err := AmendmentsPath(h, s)
	if err != nil {
		return a, err
	}
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, &a)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return a, fmt.Errorf("reading the allowed hosts: %w", err)
	}
	return a, nil
}

func writeAmendments(h host.Host, s gitrepo.Scope, a amendments) error {
	path, err := AmendmentsPath(h, s)
	if err != nil {
		return err
	}
	b, err := json.Marshal(a)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = atomicwriter.WriteFile(path, b, 0o600)
	}
	if err != nil {
		return fmt.Errorf("writing the allowed hosts: %w", err)
	}
	return nil
}

// add adds a rule and removes the rules that it overrides.
func (a *amendments) add(rule egress.Rule, allow bool) {
	to := &a.Denied
	if allow {
		to = &a.Allowed
		a.Denied = slices.DeleteFunc(a.Denied, func(denied egress.Rule) bool { return rule.Ends(denied) })
	} else {
		a.Allowed = slices.DeleteFunc(a.Allowed, func(allowed egress.Rule) bool { return allowed.Within(rule) })
	}
	if !slices.ContainsFunc(*to, func(other egress.Rule) bool { return other.String() == rule.String() }) {
		*to = append(*to, rule)
	}
}

// ineffective is an allowed rule without effect.
type ineffective struct {
	rule egress.Rule
	why  error
}

// apply applies the rules to a policy. A rule that was allowed under another policy
// may have no effect. Denied rules win.
func (a amendments) apply(p egress.Policy) (egress.Policy, []ineffective, error) {
	strict, err := a.deny(p)
	if err != nil {
		return egress.Policy{}, nil, err
	}
	var without []ineffective
	for _, rule := range a.Allowed {
		entry := egress.Entry{Rule: rule, Origin: networkOrigin}
		_, err := strict.Allow(entry)
		next := p
		if err == nil {
			next, err = p.Allow(entry)
		}
		if err != nil {
			without = append(without, ineffective{rule, err})
			continue
		}
		p = next
	}
	p, err = a.deny(p)
	return p, without, err
}

func (a amendments) deny(p egress.Policy) (egress.Policy, error) {
	for _, rule := range a.Denied {
		var err error
		if p, err = p.Refuse(egress.Entry{Rule: rule, Origin: networkOrigin}); err != nil {
			return egress.Policy{}, err
		}
	}
	return p, nil
}

// Amended applies the rules of "docker ralph network" to a scope's policy, and
// reports those without effect.
func Amended(h host.Host, s gitrepo.Scope, p egress.Policy) (egress.Policy, error) {
	later, err := readAmendments(h, s)
	if err != nil {
		return egress.Policy{}, err
	}
	p, without, err := later.apply(p)
	for _, u := range without {
		h.Report(fmt.Sprintf("Warning: \"docker ralph network allow %s\" has no effect: %v", u.rule, u.why))
	}
	return p, err
}

// checkEffective returns an error if one of the rules has no effect.
func checkEffective(without []ineffective, rules []egress.Rule) error {
	for _, u := range without {
		if slices.ContainsFunc(rules, func(rule egress.Rule) bool { return rule.String() == u.rule.String() }) {
			return u.why
		}
	}
	return nil
}
