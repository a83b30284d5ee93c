package dispatch

import (
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/egress"
)

// policyKey is the setting's name.
const policyKey = "sandbox.network.policy"

// wall completes a spec by what holds the sandbox in. The programs for microVMs
// have walls of their own, which we do not set.
func (h Host) wall(spec *lifecycle.Spec, cfg config.Effective, at place) error {
	policy, err := cfg.Policy()
	if err != nil {
		return err
	}
	if at.kind != config.DriverContainer {
		if cfg.Origins[policyKey].Kind != config.FromDefault && !at.known {
			h.report(fmt.Sprintf("Warning: the network policy %q has no effect: a microVM of %s reaches what the policy of that program allows", policy.Mode, at.kind))
		}
		return nil
	}
	spec.ReadOnly, spec.Runtime = cfg.Sandbox.ReadOnly, cfg.Sandbox.Runtime
	if policy.Mode == "" {
		return nil
	}
	later, err := h.readAmendments(spec.Name)
	if err != nil {
		return err
	}
	amended, err := later.amend(policy)
	if err != nil {
		// What was allowed by hand may not fit another policy.
		h.report(fmt.Sprintf("Warning: what \"docker ralph network\" was told has no effect: %v", err))
		amended = policy
	}
	spec.Egress = lifecycle.Egress{Policy: policy, Amended: amended, Upstream: h.upstream(at)}
	return nil
}

// egressOf returns a function that tells what the policy is for another agent
// than the one of the configuration.
func (h Host) egressOf(spec lifecycle.Spec, cfg config.Effective, at place) func(string) (lifecycle.Egress, error) {
	return func(agent string) (lifecycle.Egress, error) {
		if agent == cfg.Agent.Name {
			return spec.Egress, nil
		}
		cfg, spec := cfg, spec
		cfg.Agent.Name = agent
		err := h.wall(&spec, cfg, at)
		return spec.Egress, err
	}
}

// upstream is the proxy through which containers reach the internet: the one of
// Docker's configuration, or else that of the environment. One that listens on
// this machine's loopback is no use to a container.
func (h Host) upstream(at place) egress.Upstream {
	args := h.ProxyArgs(at.api.DaemonHost())
	value := func(name string) string {
		for _, spelling := range []string{name, strings.ToLower(name)} {
			if v := args[spelling]; v != nil && *v != "" {
				return *v
			}
			if v := h.getenv(spelling); v != "" {
				return v
			}
		}
		return ""
	}
	reachable := func(address string) egress.Secret {
		u, err := url.Parse(address)
		if err != nil || u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback() {
			return ""
		}
		return egress.Secret(address)
	}
	return egress.Upstream{HTTP: reachable(value("HTTP_PROXY")), HTTPS: reachable(value("HTTPS_PROXY")), No: value("NO_PROXY")}
}
