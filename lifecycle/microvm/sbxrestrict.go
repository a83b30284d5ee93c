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

// restrict adds rules. Those of sbx add up: those for all
// sandboxes and those for this one, and one that denies comes first. So this
// sandbox is allowed what the policy allows, and denied what rules of others
// would allow it beyond that. Rules for all sandboxes are the user's and are
// never changed.
func (s *sbx) restrict(ctx context.Context, d *Driver, name string, policy egress.Policy, told []string, note func([]string) error) (kept, error) {
	rules, err := askRules(ctx, d, name)
	if err != nil {
		return kept{}, err
	}
	ours, others := part(rules, name, told)
	want := translate(policy)
	is := kept{looser: want.fit(policy, others), stricter: want.stricter}
	change := difference(want.list, ours)
	if !change.none() {
		told = union(told, texts(want.list))
		if err := note(told); err != nil {
			return is, err
		}
		if err := change.apply(ctx, d, name); err != nil {
			return is, err
		}
		if rules, err = askRules(ctx, d, name); err != nil {
			return is, err
		}
		ours, _ = part(rules, name, told)
		// What it has not taken back is still to be known for ours.
		if err := note(union(texts(want.list), texts(slices.Collect(maps.Keys(ours))))); err != nil {
			return is, err
		}
	}
	return check(is, want.list, ours), nil
}

// check compares the rules that are there with those that are wanted. sbx
// ignores some, as where an organisation decides.
func check(is kept, want []wish, ours map[wish][]rule) kept {
	const most = 3 // clauses
	say := func(list *[]string, clause string, w wish) {
		if len(*list) < most {
			*list = append(*list, fmt.Sprintf("sbx was told to "+clause, w.decision, w.resource))
		}
	}
	counts := func(w wish) bool { return slices.ContainsFunc(ours[w], rule.inForce) }
	for _, w := range want {
		if counts(w) {
			continue
		}
		list := &is.stricter
		if w.decision == deny {
			list = &is.looser
		}
		say(list, "%s %s, but does not list that as in force", w)
	}
	for w := range ours {
		if slices.Contains(want, w) || !counts(w) {
			continue
		}
		list := &is.stricter
		if w.decision == allow {
			list = &is.looser
		}
		say(list, "take back that it shall %s %s, but still lists it", w)
	}
	return is
}

// change is what leads from the rules that a sandbox has to those that it is to
// have.
type change struct {
	missing []wish
	// replaced are those that are there, in a rule that has to go.
	replaced []wish
	drop     []string // IDs of rules
}

func (c change) none() bool { return len(c.missing)+len(c.drop) == 0 }

func difference(want []wish, ours map[wish][]rule) (c change) {
	for w, rules := range ours {
		if slices.Contains(want, w) {
			continue
		}
		for _, r := range rules {
			if !slices.Contains(c.drop, r.ID) {
				c.drop = append(c.drop, r.ID)
			}
		}
	}
	goes := func(r rule) bool { return slices.Contains(c.drop, r.ID) }
	for _, w := range want {
		switch rules := ours[w]; {
		case len(rules) == 0:
			c.missing = append(c.missing, w)
		case !slices.ContainsFunc(rules, func(r rule) bool { return !goes(r) }):
			c.replaced = append(c.replaced, w)
		}
	}
	return c
}

// apply changes rules in an order in which the sandbox never reaches what it is
// not to reach.
func (c change) apply(ctx context.Context, d *Driver, name string) error {
	add := slices.Concat(c.missing, c.replaced)
	if err := tell(ctx, d, name, deny, add); err != nil {
		return err
	}
	for _, id := range c.drop {
		if _, err := d.call(ctx, limitList, "policy", "rm", "network", "--sandbox", name, "--id", id); err != nil {
			return fmt.Errorf("removing a network rule of the sandbox %s: %w", name, err)
		}
	}
	return tell(ctx, d, name, allow, add)
}

// tell adds the rules of one kind to those of a sandbox.
func tell(ctx context.Context, d *Driver, name, decision string, list []wish) error {
	var resources []string
	for _, w := range list {
		if w.decision == decision {
			resources = append(resources, w.resource)
		}
	}
	if len(resources) == 0 {
		return nil
	}
	if _, err := d.call(ctx, limitList, "policy", decision, "network", "--sandbox", name, strings.Join(resources, ",")); err != nil {
		return fmt.Errorf("adding network rules to the sandbox %s: %w", name, err)
	}
	return nil
}

// askRules asks sbx for the rules that count for a sandbox.
func askRules(ctx context.Context, d *Driver, name string) ([]rule, error) {
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

func (s *sbx) standing(ctx context.Context, d *Driver, name string, told []string) ([]lifecycle.StandingRule, error) {
	rules, err := askRules(ctx, d, name)
	if err != nil {
		return nil, err
	}
	_, others := part(rules, name, told)
	standing := []lifecycle.StandingRule{}
	for _, r := range others {
		for _, resource := range r.Resources {
			rule := lifecycle.StandingRule{Host: resource, Decision: egress.Allowed, Origin: strings.TrimSpace("sbx " + r.title())}
			switch {
			case r.Decision == deny:
				rule.Decision = egress.Refused
			case slices.Contains(told, wish{deny, resource}.String()):
				rule.Decision, rule.Origin = egress.Refused, rule.Origin+", closed for this sandbox"
			}
			standing = append(standing, rule)
		}
	}
	return standing, nil
}

func texts(list []wish) []string {
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
