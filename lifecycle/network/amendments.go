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

// amendments are what the user has said about hosts since a sandbox was made.
// They are no part of its spec: it need not be made anew for them.
type amendments struct {
	Allowed []egress.Rule `json:"allowed"`
	Denied  []egress.Rule `json:"denied"`
}

// networkOrigin is how rules of the commands below are shown.
const networkOrigin = "docker ralph network"

// amendmentsPath is where they are. What was allowed for one scope must not hold for
// another whose sandbox has the same name, so the name alone does not do.
func amendmentsPath(h host.Host, s gitrepo.Scope) (string, error) {
	name, err := s.SandboxName()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(s.Repo + "\x00" + s.Branch))
	return filepath.Join(h.StateDir, "network", name+"-"+hex.EncodeToString(sum[:6])+".json"), nil
}

func readAmendments(h host.Host, s gitrepo.Scope) (a amendments, err error) {
	path, err := amendmentsPath(h, s)
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
	path, err := amendmentsPath(h, s)
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

// take notes a rule, and forgets what it ends: an allowance of no more than what is
// denied now, or a denial of what is allowed now.
func (a *amendments) take(rule egress.Rule, allow bool) {
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

// unfit is a rule that was allowed and has no effect.
type unfit struct {
	rule egress.Rule
	why  error
}

// amend applies them to a policy. What was allowed for one policy may not fit
// another. What was denied always holds, so it comes last.
func (a amendments) amend(p egress.Policy) (egress.Policy, []unfit, error) {
	strict, err := a.deny(p)
	if err != nil {
		return egress.Policy{}, nil, err
	}
	var left []unfit
	for _, rule := range a.Allowed {
		entry := egress.Entry{Rule: rule, Origin: networkOrigin}
		_, err := strict.Allow(entry)
		next := p
		if err == nil {
			next, err = p.Allow(entry)
		}
		if err != nil {
			left = append(left, unfit{rule, err})
			continue
		}
		p = next
	}
	p, err = a.deny(p)
	return p, left, err
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

// Amended applies what was noted for a scope to a policy, and tells what of it has
// no effect.
func Amended(h host.Host, s gitrepo.Scope, p egress.Policy) (egress.Policy, error) {
	later, err := readAmendments(h, s)
	if err != nil {
		return egress.Policy{}, err
	}
	p, left, err := later.amend(p)
	for _, u := range left {
		h.Report(fmt.Sprintf("Warning: \"docker ralph network allow %s\" has no effect: %v", u.rule, u.why))
	}
	return p, err
}

// misfit is the error for rules of which one has no effect.
func misfit(left []unfit, rules []egress.Rule) error {
	for _, u := range left {
		if slices.ContainsFunc(rules, func(rule egress.Rule) bool { return rule.String() == u.rule.String() }) {
			return u.why
		}
	}
	return nil
}
