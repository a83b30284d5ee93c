package microvm

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// restrict adds rules for the sandbox. The rules for all sandboxes count too, and are never
// changed; rules that deny win. So the sandbox is allowed what the policy allows, and denied
// what other rules would allow beyond that.
func (s *sbx) restrict(ctx context.Context, d *Driver, name string, policy egress.Policy, applied []string, save func([]string) error) (deviations, error) {
	rules, err := listRules(ctx, d, name)
	if err != nil {
		return deviations{}, err
	}
	ours, others := partition(rules, name, applied)
	want := translate(policy)
	is := deviations{looser: want.denyExcess(policy, name, others), stricter: want.stricter}
	change := difference(want.list, ours)
	if !change.none() {
		applied = union(applied, formatAll(want.list))
		if err := save(applied); err != nil {
			return is, err
		}
		if err := change.apply(ctx, d, name); err != nil {
			return is, err
		}
		if rules, err = listRules(ctx, d, name); err != nil {
			return is, err
		}
		ours, _ = partition(rules, name, applied)
		// Rules of ours that sbx has not removed stay ours.
		if err := save(union(formatAll(want.list), formatAll(slices.Collect(maps.Keys(ours))))); err != nil {
			return is, err
		}
	}
	return check(is, want.list, ours), nil
}

// check compares the rules in force with those wanted: sbx ignores some, for example if an
// organization has rules.
func check(is deviations, want []access, ours map[access][]rule) deviations {
	const most = 3 // clauses
	say := func(list *[]string, clause string, w access) {
		if len(*list) < most {
			*list = append(*list, fmt.Sprintf(clause, w.action, w.resource))
		}
	}
	counts := func(w access) bool { return slices.ContainsFunc(ours[w], rule.inForce) }
	for _, w := range want {
		if counts(w) {
			continue
		}
		list := &is.stricter
		if w.action == deny {
			list = &is.looser
		}
		say(list, "sbx has not applied %s %s", w)
	}
	for w := range ours {
		if slices.Contains(want, w) || !counts(w) {
			continue
		}
		list := &is.stricter
		if w.action == allow {
			list = &is.looser
		}
		say(list, "sbx has not removed %s %s", w)
	}
	return is
}

// change leads from the rules that a sandbox has to those that it is to have.
type change struct {
	add  []access
	drop map[string][]string // IDs of rules, by their decision
}

func (c change) none() bool { return len(c.add)+len(c.drop) == 0 }

// difference drops each rule with an unwanted resource, and adds what is missing then.
func difference(want []access, ours map[access][]rule) (c change) {
	c.drop = map[string][]string{}
	for w, rules := range ours {
		for _, r := range rules {
			if !slices.Contains(want, w) && !slices.Contains(c.drop[w.action], r.ID) {
				c.drop[w.action] = append(c.drop[w.action], r.ID)
			}
		}
	}
	for _, w := range want {
		if !slices.ContainsFunc(ours[w], func(r rule) bool { return !slices.Contains(c.drop[w.action], r.ID) }) {
			c.add = append(c.add, w)
		}
	}
	return c
}

// apply changes rules in an order that never allows the sandbox too much. sbx refuses to deny a host
// that the sandbox is allowed, so the rules that allow go first.
func (c change) apply(ctx context.Context, d *Driver, name string) error {
	if err := removeRules(ctx, d, name, c.drop[allow]); err != nil {
		return err
	}
	if err := addRules(ctx, d, name, deny, c.add); err != nil {
		return err
	}
	if err := removeRules(ctx, d, name, c.drop[deny]); err != nil {
		return err
	}
	return addRules(ctx, d, name, allow, c.add)
}

// removeRules removes rules of a sandbox. Without --force, sbx asks.
func removeRules(ctx context.Context, d *Driver, name string, ids []string) error {
	for _, id := range ids {
		if _, err := d.call(ctx, limitList, "policy", "rm", "network", "--force", "--sandbox", name, "--id", id); err != nil {
			return fmt.Errorf("removing a network rule of sandbox %s: %w", name, err)
		}
	}
	return nil
}

// addRules adds the rules with one decision to those of a sandbox.
func addRules(ctx context.Context, d *Driver, name, decision string, list []access) error {
	var resources []string
	for _, w := range list {
		if w.action == decision {
			resources = append(resources, w.resource)
		}
	}
	if len(resources) == 0 {
		return nil
	}
	if _, err := d.call(ctx, limitList, "policy", decision, "network", "--sandbox", name, strings.Join(resources, ",")); err != nil {
		return fmt.Errorf("adding network rules to sandbox %s: %w", name, err)
	}
	return nil
}

// listRules returns the rules that apply to a sandbox.
func listRules(ctx context.Context, d *Driver, name string) ([]rule, error) {
	out, err := d.call(ctx, limitList, "policy", "ls", name, "--include-inactive", "--json")
	if err != nil {
		return nil, fmt.Errorf("listing the network rules of sbx: %w", err)
	}
	rules, err := parseRules(out)
	if err != nil {
		return nil, fmt.Errorf("parsing the network rules of sbx: %w", err)
	}
	return rules, nil
}

func (s *sbx) otherRules(ctx context.Context, d *Driver, name string, applied []string) ([]lifecycle.ForeignRule, error) {
	rules, err := listRules(ctx, d, name)
	if err != nil {
		return nil, err
	}
	_, others := partition(rules, name, applied)
	otherRules := []lifecycle.ForeignRule{}
	for _, r := range others {
		for _, resource := range r.Resources {
			rule := lifecycle.ForeignRule{Host: resource, Decision: egress.Allowed, Origin: strings.TrimSpace("sbx " + r.title())}
			switch {
			case r.Decision == deny:
				rule.Decision = egress.Refused
			case slices.Contains(applied, access{deny, resource}.String()):
				rule.Decision, rule.Origin = egress.Refused, rule.Origin+", closed for this sandbox"
			}
			otherRules = append(otherRules, rule)
		}
	}
	return otherRules, nil
}

func formatAll(list []access) []string {
	var all []string
	for _, w := range list {
		all = append(all, w.String())
	}
	return all
}

func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}
