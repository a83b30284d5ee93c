package network

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/containerd/errdefs"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

// inForce returns the policy that is enforced in the sandbox: its mode is set when the sandbox
// is created, and the configuration can differ since. Without a sandbox, it is the configured
// one.
func inForce(ctx context.Context, h host.Host, n networkScope, configured egress.Policy) (egress.Policy, error) {
	if n.sb.State == lifecycle.NotFound || n.sb.Egress == "" {
		return configured, nil
	}
	policy, known, err := enforced(ctx, h, n)
	if err == nil && !known { // its next command starts the proxy
		policy, err = Amended(h, n.scope, n.made)
	}
	switch {
	case err != nil:
		return policy, err
	case policy.Mode != configured.Mode:
		h.Report(fmt.Sprintf("Warning: the configuration has the policy %q, which needs --recreate; listing the rules in force", configured.Mode))
	case !slices.Equal(ruleNames(policy), ruleNames(configured)):
		h.Report("Warning: the configuration has other rules, for the next command; listing the rules in force")
	}
	return policy, nil
}

// enforced returns the policy of a running proxy, or that a microVM was created with.
func enforced(ctx context.Context, h host.Host, n networkScope) (policy egress.Policy, known bool, err error) {
	if n.vm != nil {
		made, err := n.vm.CreatedPolicy(n.name)
		if err != nil || made.Mode == "" {
			return policy, false, err
		}
		policy, err = Amended(h, n.scope, made)
		return policy, err == nil, err
	}
	if n.sb.State != lifecycle.Running || n.sb.Proxy == "" {
		return policy, false, nil
	}
	answer, err := n.driver.Control(ctx, n.sb, "policy")
	if err == nil {
		err = json.Unmarshal(answer, &policy)
	}
	if err != nil {
		if !errdefs.IsNotFound(err) { // no command has used the network yet
			h.Warn(fmt.Errorf("reading the policy in force: %w", err))
		}
		return policy, false, nil
	}
	return policy, true, nil
}

// ruleNames returns the rules of a policy, without those for the agent's model.
func ruleNames(p egress.Policy) []string {
	var names []string
	for _, e := range p.Rules {
		if !e.Model {
			names = append(names, "allow "+e.Rule.String())
		}
	}
	for _, e := range p.Refused {
		names = append(names, "deny "+e.Rule.String())
	}
	slices.Sort(names)
	return slices.Compact(names)
}
