package run

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"

	"github.com/docker-ralph/docker-ralph/credential"
	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// openEndpoints allows, for this command, hosts of the user's settings that the agent connects
// to without a route of the proxy: a region of Bedrock, or the address of a model. They are not
// part of the sandbox's spec.
func openEndpoints(h host.Host, keys *credential.Routed, allowed *lifecycle.Egress, cloud []string) (endpoints []string) {
	if mode := allowed.Policy.Mode; mode == "" || mode == egress.AllowAll {
		return nil
	}
	hosts := credential.BedrockHosts(cloud)
	if keys != nil {
		hosts = append(hosts, endpointHosts(keys.Inside)...)
	}
	for _, host := range hosts {
		rule, err := egress.ParseRule(host)
		amended := allowed.Amended
		if err == nil {
			amended, err = amended.Allow(egress.Entry{Rule: rule, Origin: egress.EndpointOrigin, Model: true})
		}
		if err != nil {
			h.Warn(fmt.Errorf("the network policy does not let the agent reach its endpoint %s: %w", egress.Printable(host), err))
			continue
		}
		allowed.Amended = amended
		endpoints = append(endpoints, rule.String())
	}
	return endpoints
}

// checkEndpoints rejects an endpoint of the agent's model that a container cannot reach: the
// agent would retry until its idle limit.
func checkEndpoints(h host.Host, keys *credential.Routed, mode egress.Mode, agent string) error {
	for _, name := range credential.Names(agent) {
		u, err := url.Parse(h.Getenv(name))
		if !strings.HasSuffix(name, "_BASE_URL") || err != nil || u.Hostname() == "" {
			continue
		}
		host := u.Hostname()
		addr, err := netip.ParseAddr(host)
		address := err == nil
		inside := slices.ContainsFunc(keys.Inside, func(pair string) bool { return strings.HasPrefix(pair, name+"=") })
		switch {
		case egress.IsLocal(host):
			return hint.Wrap(fmt.Errorf("%s points to the sandbox itself (%s)", name, host),
				"let the server listen at an address of this machine that containers reach, often 172.17.0.1 (docker0), and use that")
		case address && mode == egress.AllowAll:
			if err := (egress.Guard{}).Check(addr, nil); err != nil {
				return hint.Wrap(fmt.Errorf("%s names an address that the network policy %q blocks: %w", name, mode, err),
					"use --network %s, with which our proxy reaches it", egress.Allowlist)
			}
		case address && inside:
			return hint.Wrap(fmt.Errorf("%s names the address %s, and the network policy allows hosts by name", name, host),
				"assign it a name, and allow that with --allow NAME=%s", host)
		}
	}
	return nil
}

// endpointHosts returns the hosts of the endpoints in an environment.
func endpointHosts(environment []string) []string {
	var hosts []string
	for _, entry := range environment {
		name, value, _ := strings.Cut(entry, "=")
		if !strings.HasSuffix(name, "_BASE_URL") {
			continue
		}
		if u, err := url.Parse(value); err == nil && u.Host != "" {
			hosts = append(hosts, u.Host)
		}
	}
	return hosts
}
