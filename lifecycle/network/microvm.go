package network

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
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

// WithEndpoints adds the endpoints that the user has set for the agent's model
// to the policy of a microVM. In a container the proxy goes there by itself.
func WithEndpoints(h host.Host, policy egress.Policy, agent string) (egress.Policy, error) {
	for _, service := range credential.Services(agent) {
		address := h.Getenv(service.Endpoint)
		if service.Endpoint == "" || address == "" || policy.Mode == egress.AllowAll {
			continue
		}
		u, err := url.Parse(address)
		if err != nil {
			return policy, fmt.Errorf("%s is not a URL", service.Endpoint)
		}
		rule, err := egress.ParseRule(u.Host)
		if err != nil {
			h.Report(fmt.Sprintf("Warning: the network policy does not let the agent reach the host of %s: %v", service.Endpoint, err))
			continue
		}
		if policy, err = policy.Allow(egress.Entry{Rule: rule, Origin: service.Endpoint, Model: true}); err != nil {
			return policy, err
		}
	}
	return policy, nil
}

// listOfVM lists what the sandbox is to reach, and the rules of others that its
// program has for it.
func listOfVM(ctx context.Context, h host.Host, n networkScope, policy egress.Policy) (List, error) {
	policy, err := WithEndpoints(h, policy, n.agent)
	if err != nil {
		return List{}, err
	}
	list := List{Policy: policy.Mode, Rules: networkRules(policy, egress.Stats{})}
	h.Report(fmt.Sprintf("%s does not tell how much went to a host", n.vm.Name()))
	if n.sb.State == lifecycle.NotFound {
		return list, nil
	}
	standing, err := n.vm.Standing(ctx, n.name)
	if err != nil {
		h.Report(fmt.Sprintf("Warning: which rules %s has is not known: %v", n.vm.Name(), err))
		return list, nil
	}
	if standing == nil {
		h.Report(fmt.Sprintf("%s does not tell which rules it has: these are those that it was told", n.vm.Name()))
	}
	for _, r := range standing {
		list.Rules = append(list.Rules, Rule{Host: r.Host, Decision: r.Decision, Origin: r.Origin})
	}
	return list, nil
}

// followEvery is how often a program's log is read when it is followed.
const followEvery = 2 * time.Second

// logOfVM calls each for the hosts that the program has counted requests to, or
// refused requests to.
func logOfVM(ctx context.Context, h host.Host, n networkScope, everything, follow bool, each func(egress.Decision)) error {
	h.Report(fmt.Sprintf("%s counts requests by host: a line is for all to one host, with the time of the last", n.vm.Name()))
	var before []lifecycle.Request
	for {
		now, err := n.vm.Requests(ctx, n.name)
		if err != nil {
			return err
		}
		for _, r := range Since(before, now) {
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
		d.Decision, d.Hint = egress.Refused, Hint(mode, r)
	}
	return d
}

// amendVM tells a program of a changed policy, if the sandbox runs. Otherwise it
// is told before the next agent is started. What the configuration says by now
// makes no difference: the sandbox keeps the policy that it was made for.
func amendVM(ctx context.Context, h host.Host, n networkScope, later amendments, asked []egress.Rule) error {
	if n.sb.State != lifecycle.Running || n.sb.Egress == "" {
		return nil
	}
	made, err := n.vm.MadeFor(n.name)
	if err != nil {
		return err
	}
	amended, left, err := later.amend(made)
	if err == nil {
		amended, err = WithEndpoints(h, amended, n.sb.Agent)
	}
	if err == nil {
		err = n.vm.Restrict(ctx, n.sb, lifecycle.Egress{Policy: made, Amended: amended, Asked: n.asked})
	}
	if err == nil {
		err = misfit(left, asked)
	}
	if _, looser := errors.AsType[*lifecycle.LooserError](err); looser {
		return fmt.Errorf("saved, but this sandbox cannot run an agent: %w", err)
	}
	if err != nil {
		return fmt.Errorf("saved, but not applied until the next agent starts: %w", err)
	}
	return nil
}
