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

// WithEndpoints adds the agent's model endpoints, which the user has set, to the
// policy of a microVM. The proxy of a container forwards to them without a rule.
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
			h.Warn(fmt.Errorf("the network policy blocks the host of %s: %w", service.Endpoint, err))
			continue
		}
		if policy, err = policy.Allow(egress.Entry{Rule: rule, Origin: service.Endpoint, Model: true}); err != nil {
			return policy, err
		}
	}
	return policy, nil
}

// listMicroVM lists the policy of a microVM and the rules that others have added to
// its program.
func listMicroVM(ctx context.Context, h host.Host, n networkScope, policy egress.Policy) (List, error) {
	policy, err := WithEndpoints(h, policy, n.agent)
	if err != nil {
		return List{}, err
	}
	list := List{Policy: policy.Mode, Rules: networkRules(policy, egress.Stats{})}
	h.Report(n.vm.Name() + " does not report the traffic per host")
	if n.sb.State == lifecycle.NotFound {
		return list, nil
	}
	foreign, err := n.vm.ForeignRules(ctx, n.name)
	if err != nil {
		h.Warn(fmt.Errorf("listing the rules of %s: %w", n.vm.Name(), err))
		return list, nil
	}
	if foreign == nil {
		h.Report(n.vm.Name() + " does not report its rules: listing the configured ones")
	}
	for _, r := range foreign {
		list.Rules = append(list.Rules, Rule{Host: r.Host, Decision: r.Decision, Origin: r.Origin})
	}
	return list, nil
}

// followEvery is how often a program's log is read with follow.
const followEvery = 2 * time.Second

// logMicroVM calls each for the hosts that the program has counted requests to; only
// blocked requests, unless everything is set.
func logMicroVM(ctx context.Context, h host.Host, n networkScope, everything, follow bool, each func(egress.Decision)) error {
	h.Report(n.vm.Name() + " counts requests per host: each line has the time of the last one")
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

// decisionOf converts a request to the form of our proxy's log.
func decisionOf(mode egress.Mode, r lifecycle.Request) egress.Decision {
	d := egress.Decision{Time: r.Last, Via: cmp.Or(r.Via, "proxy"), Decision: egress.Allowed, Host: r.Host, Port: r.Port}
	d.Why = fmt.Sprintf("×%d", r.Count)
	if r.Why != "" {
		// It may contain text that the agent chose.
		d.Why = strings.Trim(strconv.Quote(r.Why), `"`) + " " + d.Why
	}
	if r.Refused {
		d.Decision, d.Hint = egress.Refused, Hint(mode, r)
	}
	return d
}

// amendMicroVM applies the rules to a running sandbox, based on the policy that it was
// created with. A stopped one gets them before the next agent starts.
func amendMicroVM(ctx context.Context, h host.Host, n networkScope, later amendments, rules []egress.Rule) error {
	if n.sb.State != lifecycle.Running || n.sb.Egress == "" {
		return nil
	}
	made, err := n.vm.CreatedPolicy(n.name)
	if err != nil {
		return err
	}
	amended, without, err := later.apply(made)
	if err == nil {
		amended, err = WithEndpoints(h, amended, n.sb.Agent)
	}
	if err == nil {
		err = n.vm.Restrict(ctx, n.sb, lifecycle.Egress{Policy: made, Amended: amended, Asked: n.asked, Now: true})
	}
	if err == nil {
		err = checkEffective(without, rules)
	}
	if _, looser := errors.AsType[*lifecycle.LooserError](err); looser {
		return fmt.Errorf("saved, but this sandbox cannot run an agent: %w", err)
	}
	if err != nil {
		return fmt.Errorf("saved, but not applied until the next agent starts: %w", err)
	}
	return nil
}
