package dispatch

import (
	"net"
	"net/url"
	"strings"
	"sync"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// wall completes a spec by what holds the sandbox in.
func (h Host) wall(spec *lifecycle.Spec, cfg config.Effective, at place) error {
	policy, err := cfg.Policy()
	if err != nil {
		return err
	}
	inContainer := at.kind == config.DriverContainer
	if inContainer {
		spec.ReadOnly, spec.Runtime = cfg.Sandbox.ReadOnly, cfg.Sandbox.Runtime
	}
	// What was said is for the scope, also where each dispatch has its own sandbox.
	amended, err := h.amended(spec.Scope, policy)
	if err != nil {
		return err
	}
	spec.Egress = lifecycle.Egress{Policy: policy, Amended: amended, Asked: cfg.NetworkAsked()}
	if inContainer {
		spec.Egress.Upstream, spec.Egress.CA = h.upstream(at), sync.OnceValue(h.certificates)
		return nil
	}
	spec.Egress.Amended, err = h.withEndpoints(amended, cfg.Agent.Name)
	return err
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
