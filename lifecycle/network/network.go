// Package network lists, logs and changes what the sandbox of a scope may reach.
package network

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/approval"
	"github.com/docker-ralph/docker-ralph/lifecycle/container"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/microvm"
)

// networkScope is the sandbox of the current scope and what it may reach.
type networkScope struct {
	driver *container.Driver    // nil for a microVM
	vm     lifecycle.Restricter // nil for a container
	sb     lifecycle.Sandbox
	scope  gitrepo.Scope
	name   string
	agent  string
	asked  bool
	policy egress.Policy // without amendments
}

// findNetworkScope finds the sandbox of the current scope, if there is one.
func findNetworkScope(ctx context.Context, h host.Host, over config.Overrides) (n networkScope, err error) {
	connected := h.Connect()
	wt, err := gitrepo.Detect(ctx, h.Dir, h.Getenv)
	if err != nil {
		return n, err
	}
	cfg, err := approval.Configure(ctx, h, wt, over)
	if err != nil {
		return n, err
	}
	n.scope = wt.Scope
	if n.name, err = h.SandboxName(wt); err != nil {
		return n, err
	}
	n.agent, n.asked = cfg.Agent.Name, cfg.NetworkConfigured()
	kind := cfg.Sandbox.Driver
	if kind == config.DriverAuto {
		kind = cmp.Or(h.Kept(n.name), config.DriverContainer)
	}
	if n.policy, err = cfg.Policy(); err != nil {
		return n, err
	}
	var driver lifecycle.Driver
	if slices.Contains(microvm.Drivers(), kind) {
		n.vm = h.MicroVM(kind, nil)
		driver = n.vm
	} else {
		api, err := connected()
		if err != nil {
			return n, err
		}
		n.driver = h.ContainerDriver(api)
		driver = n.driver
	}
	if n.sb, err = driver.Lookup(ctx, n.name); err == nil && (lifecycle.Spec{Scope: wt.Scope, Root: wt.Root}).Check(n.sb) != nil {
		n.sb = lifecycle.Sandbox{Name: n.name, State: lifecycle.NotFound} // it is another worktree's
	}
	return n, err
}

// Rule is a rule of the effective policy. Its names in JSON are part of
// the command's interface.
type Rule struct {
	Host     string `json:"host"`     // as rules are written
	Decision string `json:"decision"` // allowed or refused
	Origin   string `json:"origin"`
	Sent     int64  `json:"sent"`     // bytes to the hosts that it names, since the proxy was started
	Received int64  `json:"received"` // bytes from them
}

// List is what a scope's sandbox reaches.
type List struct {
	Policy egress.Mode `json:"policy"`
	Rules  []Rule      `json:"rules"`
}

// Rules tells what the sandbox of the current scope may reach, and what
// went there since its proxy was started.
func Rules(ctx context.Context, h host.Host, over config.Overrides) (List, error) {
	n, err := findNetworkScope(ctx, h, over)
	if err != nil {
		return List{}, err
	}
	policy, err := Amended(h, n.scope, n.policy)
	if err != nil {
		return List{}, err
	}
	if n.vm != nil {
		return listOfVM(ctx, h, n, policy)
	}
	var traffic egress.Stats
	if n.sb.State == lifecycle.Running && n.sb.Proxy != "" {
		answer, err := n.driver.Control(ctx, n.sb, "stats")
		if err == nil {
			err = json.Unmarshal(answer, &traffic)
		}
		if err != nil {
			h.Report(fmt.Sprintf("Warning: what was sent is unknown: %v", err))
		}
	}
	return List{Policy: policy.Mode, Rules: networkRules(policy, traffic)}, nil
}

// networkRules lists the rules that count, with the traffic of the hosts that
// each names.
func networkRules(policy egress.Policy, traffic egress.Stats) []Rule {
	rules := []Rule{}
	for _, refused := range policy.Refused {
		rules = append(rules, Rule{Host: refused.Rule.String(), Decision: egress.Refused, Origin: refused.Origin})
	}
	for _, e := range policy.Rules {
		rule := Rule{Host: e.Rule.String(), Decision: egress.Allowed, Origin: e.Origin}
		alone := egress.Policy{Mode: egress.Allowlist, Rules: []egress.Entry{e}}
		for _, host := range traffic.Hosts {
			if alone.Decide(host.Host, host.Port).Allowed {
				rule.Sent += host.Sent
				rule.Received += host.Received
			}
		}
		rules = append(rules, rule)
	}
	return rules
}

// Log calls each for what the proxy of the current scope's sandbox has
// refused, or for everything that it decided. With follow it goes on until ctx
// ends.
func Log(ctx context.Context, h host.Host, over config.Overrides, everything, follow bool, each func(egress.Decision)) error {
	n, err := findNetworkScope(ctx, h, over)
	if err != nil {
		return err
	}
	if n.vm != nil {
		return logOfVM(ctx, h, n, everything, follow, each)
	}
	if n.sb.Proxy == "" {
		return hint.Wrap(fmt.Errorf("no network log: the sandbox %s does not exist yet", n.name), "create it with %q", "docker ralph task list")
	}
	return Decisions(ctx, n.driver, n.sb, time.Time{}, follow, func(decision egress.Decision) {
		if everything || decision.Decision == egress.Refused {
			each(decision)
		}
	})
}

// Decisions calls each for what a sandbox's proxy has decided since a moment.
// Hosts in it are text that the agent chose. An engine says when it has read a
// line, which on a busy machine is later than the decision: the canary, which tries
// what shall be refused, is none of the user's commands.
func Decisions(ctx context.Context, driver *container.Driver, sb lifecycle.Sandbox, since time.Time, follow bool, each func(egress.Decision)) error {
	lines, log := io.Pipe()
	go func() { _ = log.CloseWithError(driver.Decisions(ctx, sb, since, follow, log)) }()
	defer func() { _ = lines.Close() }()
	scanner := bufio.NewScanner(lines)
	for scanner.Scan() {
		var decision egress.Decision
		if json.Unmarshal(scanner.Bytes(), &decision) == nil && decision.Decision != "" && !decision.Time.Before(since) {
			each(decision)
		}
	}
	return scanner.Err()
}

// Amend allows or refuses hosts for the current scope: at once if its
// sandbox runs, and from now on.
func Amend(ctx context.Context, h host.Host, over config.Overrides, allow bool, rules []string) error {
	n, err := findNetworkScope(ctx, h, over)
	if err != nil {
		return err
	}
	later, err := readAmendments(h, n.scope)
	if err != nil {
		return err
	}
	var asked []egress.Rule
	for _, text := range rules {
		rule, err := egress.ParseRule(text)
		if err != nil {
			return err
		}
		asked = append(asked, rule)
		later.take(rule, allow)
	}
	_, left, err := later.amend(n.policy)
	if err == nil {
		err = misfit(left, asked)
	}
	if err != nil {
		return err
	}
	if err := writeAmendments(h, n.scope, later); err != nil {
		return err
	}
	if n.vm != nil {
		err = amendVM(ctx, h, n, later, asked)
	} else {
		err = amendProxy(ctx, n, allow, rules)
	}
	if err == nil {
		did := "Blocked"
		if allow {
			did = "Allowed"
		}
		h.Report(fmt.Sprintf("%s for %s: %s", did, n.name, strings.Join(rules, ", ")))
	}
	return err
}

// amendProxy changes what the proxy of a container lets through now. It stays while
// its sandbox is stopped, and so does its log.
func amendProxy(ctx context.Context, n networkScope, allow bool, rules []string) error {
	if n.sb.Proxy == "" {
		return nil
	}
	do := "deny"
	if allow {
		do = "allow"
	}
	_, err := n.driver.Control(ctx, n.sb, append([]string{do, "-origin", networkOrigin}, rules...)...)
	switch {
	case err == nil:
		return nil
	case n.sb.State != lifecycle.Running:
		return n.driver.EndProxy(ctx, n.sb) // the next start makes one with the new policy
	}
	return fmt.Errorf("saved, but not applied until the proxy restarts: %w", err)
}
