package network

import (
	"fmt"
	"slices"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/scopes"
)

// amendments are the rules of "docker ralph network". They are not part of a
// sandbox's spec, so they do not recreate it.
type amendments struct {
	Scope   gitrepo.Scope `json:"scope"`
	Allowed []egress.Rule `json:"allowed"`
	Denied  []egress.Rule `json:"denied"`
}

// networkOrigin is the origin of these rules in lists.
const networkOrigin = "docker ralph network"

// section has the rules of a scope. Another scope can have the same sandbox name.
var section = scopes.Section[amendments]("network")

func readAmendments(h host.Host, s gitrepo.Scope) (amendments, error) {
	name, err := s.SandboxName()
	if err != nil {
		return amendments{}, err
	}
	a, _, err := section.Read(h.StateDir, name)
	if err != nil || a.Scope != s {
		return amendments{Scope: s}, err
	}
	return a, nil
}

func writeAmendments(h host.Host, a amendments) error {
	name, err := a.Scope.SandboxName()
	if err != nil {
		return err
	}
	return section.Update(h.StateDir, name, func(old amendments, found bool) (amendments, error) {
		if found && old.Scope != a.Scope {
			return old, fmt.Errorf("the network rules of %s belong to %s, branch %q", name, old.Scope.Repo, old.Scope.Branch)
		}
		return a, nil
	})
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
