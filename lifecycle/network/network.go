// Package network lists, logs and changes the network policy of a scope's sandbox.
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

	"github.com/containerd/errdefs"

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

// networkScope is the sandbox of the current scope and its network policy.
type networkScope struct {
	driver *container.Driver    // nil for a microVM
	vm     lifecycle.Restricter // nil for a container
	sb     lifecycle.Sandbox
	scope  gitrepo.Scope
	name   string
	agent  string
	asked  bool
	policy egress.Policy // without amendments
	made   egress.Policy // likewise, in the mode that the sandbox was created with
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
	n.agent, n.asked = cfg.KeyAgent(), cfg.NetworkConfigured()
	kind := cfg.Sandbox.Driver
	if kind == config.DriverAuto {
		kind = cmp.Or(h.CreatedBy(n.name), config.DriverContainer)
	}
	if n.policy, err = cfg.Policy(); err != nil {
		return n, err
	}
	var driver lifecycle.Driver
	if slices.Contains(microvm.Drivers(), kind) {
		n.vm = h.MicroVM(kind, nil)
		driver = n.vm
	} else {
		api, _, err := h.EngineOf(ctx, n.name, connected)
		if err != nil {
			return n, err
		}
		n.driver = h.ContainerDriver(api)
		driver = n.driver
	}
	own := lifecycle.Spec{Scope: wt.Scope, Root: wt.Root}
	n.sb, err = driver.Lookup(ctx, n.name)
	if other, is := lifecycle.SandboxOfOtherClient(err); is && own.Check(other) != nil {
		n.sb, err = other, nil
	}
	if err == nil && own.Check(n.sb) != nil {
		n.sb = lifecycle.Sandbox{Name: n.name, State: lifecycle.NotFound} // it belongs to another worktree
	}
	if n.made = n.policy; err == nil && n.sb.State != lifecycle.NotFound && n.sb.Egress != "" {
		cfg.Sandbox.Network.Policy = n.sb.Egress
		n.made, err = cfg.Policy()
	}
	return n, err
}

// Rule is a rule of the effective policy. Its names in JSON are part of
// the command's interface.
type Rule struct {
	Host     string `json:"host"`     // in the syntax of rules
	Decision string `json:"decision"` // allowed or refused
	Origin   string `json:"origin"`
	Sent     int64  `json:"sent"`     // bytes to matching hosts since the proxy started
	Received int64  `json:"received"` // bytes from them
}

// List is the effective policy of a scope's sandbox.
type List struct {
	Policy egress.Mode `json:"policy"`
	Rules  []Rule      `json:"rules"`
}

// Rules returns the effective policy of the current scope's sandbox, with the
// traffic since its proxy started.
func Rules(ctx context.Context, h host.Host, over config.Overrides) (List, error) {
	n, err := findNetworkScope(ctx, h, over)
	if err != nil {
		return List{}, err
	}
	policy, err := Amended(h, n.scope, n.policy)
	if err == nil {
		policy, err = inForce(ctx, h, n, policy)
	}
	if err != nil {
		return List{}, err
	}
	if n.vm != nil {
		return listMicroVM(ctx, h, n, policy)
	}
	var traffic egress.Stats
	if n.sb.State == lifecycle.Running && n.sb.Proxy != "" {
		answer, err := n.driver.Control(ctx, n.sb, "stats")
		if err == nil {
			err = json.Unmarshal(answer, &traffic)
		}
		if err != nil && !errdefs.IsNotFound(err) { // no command has used the network yet
			h.Warn(fmt.Errorf("reading the traffic: %w", err))
		}
	}
	return List{Policy: policy.Mode, Rules: networkRules(policy, traffic)}, nil
}

// networkRules lists the rules of a policy, with the traffic of the hosts that each
// matches.
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

// Log calls each for the blocked connections of the current scope's sandbox, or for
// all its connections. With follow it continues until ctx ends.
func Log(ctx context.Context, h host.Host, over config.Overrides, everything, follow bool, each func(egress.Decision)) error {
	n, err := findNetworkScope(ctx, h, over)
	if err != nil {
		return err
	}
	if n.vm != nil {
		return logMicroVM(ctx, h, n, everything, follow, each)
	}
	if n.sb.Proxy == "" {
		return hint.Wrap(fmt.Errorf("no network log: sandbox %s does not exist yet", n.name), "create it with %q", "docker ralph shell -- true")
	}
	return Decisions(ctx, n.driver, n.sb, time.Time{}, follow, func(decision egress.Decision) {
		if everything || decision.Decision == egress.Refused {
			each(decision)
		}
	})
}

// Decisions calls each for the decisions of a sandbox's proxy since a moment. Host
// names in them are chosen by the agent. It compares the times in the log, because
// the engine's can be later: earlier decisions may be those of the canary, which
// connects to blocked addresses.
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

// Amend allows or denies hosts for the current scope, with immediate effect on a
// running sandbox.
func Amend(ctx context.Context, h host.Host, over config.Overrides, allow bool, hosts []string) error {
	n, err := findNetworkScope(ctx, h, over)
	if err != nil {
		return err
	}
	later, err := readAmendments(h, n.scope)
	if err != nil {
		return err
	}
	var rules []egress.Rule
	for _, text := range hosts {
		rule, err := egress.ParseRule(text)
		if err != nil {
			return fmt.Errorf("invalid network rule %q: %w", text, err)
		}
		rules = append(rules, rule)
		later.add(rule, allow)
	}
	_, without, err := later.apply(n.policy)
	if err == nil {
		err = checkEffective(without, rules)
	}
	if err != nil {
		return err
	}
	if err := writeAmendments(h, later); err != nil {
		return err
	}
	if n.vm != nil {
		err = amendMicroVM(ctx, h, n, later, rules)
	} else {
		err = amendProxy(ctx, n, allow, hosts)
	}
	if err == nil {
		action := "Blocked"
		if allow {
			action = "Allowed"
		}
		h.Report(fmt.Sprintf("%s for %s: %s", action, n.name, strings.Join(hosts, ", ")))
	}
	return err
}

// amendProxy applies rules to the proxy of a container, which can run while the
// sandbox is stopped.
func amendProxy(ctx context.Context, n networkScope, allow bool, hosts []string) error {
	if n.sb.Proxy == "" {
		return nil
	}
	command := "deny"
	if allow {
		command = "allow"
	}
	_, err := n.driver.Control(ctx, n.sb, append([]string{command, "-origin", networkOrigin}, hosts...)...)
	switch {
	case err == nil, errdefs.IsNotFound(err): // the next proxy has the new policy
		return nil
	case n.sb.State != lifecycle.Running:
		return n.driver.RemoveProxy(ctx, n.sb) // the next start creates one with the new policy
	}
	return fmt.Errorf("saved, but not applied until the proxy restarts: %w", err)
}
