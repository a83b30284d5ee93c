package microvm

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// rule is a rule as "policy ls --json" lists it (contract, section 6.3). AppliesTo comes
// with and without "sandbox:".
type rule struct {
	ID        string   `json:"id"`
	Name      string   `json:"name"`
	Scope     string   `json:"scope"`
	AppliesTo string   `json:"applies_to"`
	Type      string   `json:"resource_type"`
	Decision  string   `json:"decision"`
	Resources []string `json:"resources"`
	Origin    string   `json:"origin"`
	Status    string   `json:"status"`
}

// parseRules returns the network rules, including inactive ones.
func parseRules(output []byte) ([]rule, error) {
	var list struct {
		Rules *[]rule `json:"rules"`
	}
	if err := decode(output, &list); err != nil {
		return nil, err
	}
	if list.Rules == nil {
		return nil, errors.New("no rules in the JSON")
	}
	return slices.DeleteFunc(*list.Rules, func(r rule) bool {
		return strings.HasPrefix(r.Type, "filesystem")
	}), nil
}

// inForce reports whether the rule is active: with an organization's rules, not all are.
func (r rule) inForce() bool { return r.Status != "inactive" }

// appliesOnlyTo reports whether the rule is for that sandbox alone.
func (r rule) appliesOnlyTo(sandbox string) bool {
	return r.AppliesTo == sandbox || r.AppliesTo == "sandbox:"+sandbox || r.Scope == "sandbox:"+sandbox
}

// describe formats a resource of the rule with the rule's name.
func (r rule) describe(resource string) string {
	if r.title() == "" {
		return resource
	}
	return fmt.Sprintf("%s (%s)", resource, r.title())
}

// title is the rule's name, unless it is only its ID.
func (r rule) title() string {
	if r.Name == r.ID {
		return ""
	}
	return r.Name
}

// partition separates the rules that we have applied to a sandbox from others in force.
func partition(rules []rule, sandbox string, applied []string) (ours map[access][]rule, others []rule) {
	ours = map[access][]rule{}
	for _, r := range rules {
		foreign := r
		foreign.Resources = nil
		for _, resource := range r.Resources {
			w := access{r.Decision, resource}
			if r.appliesOnlyTo(sandbox) && slices.Contains(applied, w.String()) {
				ours[w] = append(ours[w], r)
			} else {
				foreign.Resources = append(foreign.Resources, resource)
			}
		}
		if len(foreign.Resources) > 0 && r.inForce() {
			others = append(others, foreign)
		}
	}
	return ours, others
}
