package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/credential"
	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// withEndpoints adds the endpoints that the user has set for the agent's model
// to the policy of a microVM. In a container the proxy goes there by itself.
func (h Host) withEndpoints(policy egress.Policy, agent string) (egress.Policy, error) {
	for _, service := range credential.Services(agent) {
		address := h.getenv(service.Endpoint)
		if service.Endpoint == "" || address == "" || policy.Mode == egress.AllowAll {
			continue
		}
		u, err := url.Parse(address)
		if err != nil {
			return policy, fmt.Errorf("%s is not a URL", service.Endpoint)
		}
		rule, err := egress.ParseRule(u.Host)
		if err != nil {
			h.report(fmt.Sprintf("Warning: the network policy does not let the agent reach the host of %s: %v", service.Endpoint, err))
			continue
		}
		if policy, err = policy.Allow(egress.Entry{Rule: rule, Origin: service.Endpoint, Model: true}); err != nil {
			return policy, err
		}
	}
	return policy, nil
}

// restrict keeps a microVM to its policy before an agent is started in it. A
// container has a wall of its own.
func restrict(ctx context.Context, at place, sb lifecycle.Sandbox, spec lifecycle.Spec, command string) error {
	d, ok := at.driver.(lifecycle.Restricter)
	if !ok || command == taskCommand {
		return nil
	}
	return d.Restrict(ctx, sb, spec.Egress)
}

// listOfVM lists what the sandbox is to reach, and the rules of others that its
// program has for it.
func (h Host) listOfVM(ctx context.Context, n networkScope, policy egress.Policy) (Network, error) {
	policy, err := h.withEndpoints(policy, n.agent)
	if err != nil {
		return Network{}, err
	}
	list := Network{Policy: policy.Mode, Rules: networkRules(policy, egress.Stats{})}
	h.report(fmt.Sprintf("%s does not tell how much went to a host", n.vm.Name()))
	if n.sb.State == lifecycle.NotFound {
		return list, nil
	}
	standing, err := n.vm.Standing(ctx, n.name)
	if err != nil {
		h.report(fmt.Sprintf("Warning: which rules %s has is not known: %v", n.vm.Name(), err))
		return list, nil
	}
	if standing == nil {
		h.report(fmt.Sprintf("%s does not tell which rules it has: these are those that it was told", n.vm.Name()))
	}
	for _, r := range standing {
		list.Rules = append(list.Rules, NetworkRule{Host: r.Host, Decision: r.Decision, Origin: r.Origin})
	}
	return list, nil
}

// followEvery is how often a program's log is read when it is followed.
const followEvery = 2 * time.Second

// logOfVM calls each for the hosts that the program has counted requests to, or
// refused requests to.
func (h Host) logOfVM(ctx context.Context, n networkScope, everything, follow bool, each func(egress.Decision)) error {
	h.report(fmt.Sprintf("%s counts requests by host: a line is for all to one host, with the time of the last", n.vm.Name()))
	var before []lifecycle.Request
	for {
		now, err := n.vm.Requests(ctx, n.name)
		if err != nil {
			return err
		}
		for _, r := range since(before, now) {
			if everything || r.Refused {
				each(decisionOf(n.policy.Mode, r))
			}
		}
		before = now
		if !follow {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(followEvery):
		}
	}
}

// decisionOf is a request as our own proxy would have logged it.
func decisionOf(mode egress.Mode, r lifecycle.Request) egress.Decision {
	d := egress.Decision{Time: r.Last, Via: cmp.Or(r.Via, "proxy"), Decision: egress.Allowed, Host: r.Host, Port: r.Port}
	d.Why = fmt.Sprintf("×%d", r.Count)
	if r.Why != "" {
		// It may hold what the agent has asked for.
		d.Why = strings.Trim(strconv.Quote(r.Why), `"`) + " " + d.Why
	}
	if r.Refused {
		d.Decision, d.Hint = egress.Refused, hintFor(mode, r)
	}
	return d
}

// amendVM tells a program of a changed policy, if the sandbox runs. Otherwise it
// is told before the next agent is started. What the configuration says by now
// makes no difference: the sandbox keeps the policy that it was made for.
func (h Host) amendVM(ctx context.Context, n networkScope, later amendments, asked []egress.Rule) error {
	if n.sb.State != lifecycle.Running || n.sb.Egress == "" {
		return nil
	}
	made, err := n.vm.MadeFor(n.name)
	if err != nil {
		return err
	}
	amended, left, err := later.amend(made)
	if err == nil {
		amended, err = h.withEndpoints(amended, n.sb.Agent)
	}
	if err == nil {
		err = n.vm.Restrict(ctx, n.sb, lifecycle.Egress{Policy: made, Amended: amended, Asked: n.asked})
	}
	if err == nil {
		err = misfit(left, asked)
	}
	if looser, ok := errors.AsType[*lifecycle.LooserError](err); ok {
		return fmt.Errorf("this is noted, but no agent is started in this sandbox: %w", looser)
	}
	if err != nil {
		return fmt.Errorf("this is noted for the next agent, but does not hold yet: %w", err)
	}
	return nil
}
