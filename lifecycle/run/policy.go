package run

import (
	"net/url"
	"strings"
	"sync"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/network"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// setSizes sets the sizes of temporary file systems that differ from the defaults, which
// sandboxes of earlier versions have. On a writable root file system, /tmp is a directory.
func setSizes(spec *lifecycle.Spec, r config.Resources) {
	if spec.ReadOnly && r.Tmp != config.DefaultTmp {
		spec.Tmp = r.Tmp
	}
	if r.Shm != config.DefaultShm {
		spec.Shm = r.Shm
	}
}

// setPolicy completes a spec with the network policy and hardening.
func setPolicy(h host.Host, spec *lifecycle.Spec, cfg config.Effective, at Choice) error {
	policy, err := cfg.Policy()
	if err != nil {
		return err
	}
	inContainer := at.Kind == config.DriverContainer
	if inContainer {
		spec.ReadOnly, spec.Runtime = cfg.Sandbox.ReadOnly, cfg.Sandbox.Runtime
		setSizes(spec, cfg.Sandbox.Resources)
	}
	// Changes are of the scope, not of an ephemeral sandbox.
	amended, err := network.Amended(h, spec.Scope, policy)
	if err != nil {
		return err
	}
	spec.Egress = lifecycle.Egress{Policy: policy, Amended: amended, Asked: cfg.NetworkConfigured()}
	if inContainer {
		spec.Egress.Upstream, spec.Egress.CA = upstream(h, at), sync.OnceValue(func() string { return cfg.Sandbox.CA + h.Certificates() })
		return nil
	}
	spec.Egress.Amended, err = network.WithEndpoints(h, amended, cfg.KeyAgent())
	return err
}

// egressOf returns a function that returns the policy for an agent.
func egressOf(h host.Host, spec lifecycle.Spec, cfg config.Effective, at Choice) func(string) (lifecycle.Egress, error) {
	return func(agent string) (lifecycle.Egress, error) {
		if agent == cfg.Agent.Name {
			return spec.Egress, nil
		}
		cfg, spec := cfg, spec
		cfg.Agent.Name = agent
		err := setPolicy(h, &spec, cfg, at)
		return spec.Egress, err
	}
}

// upstream is the proxy of Docker's configuration, or else of the environment. One on this
// machine's loopback address is ignored: containers cannot reach it.
func upstream(h host.Host, at Choice) egress.Upstream {
	args := h.ProxyArgs(at.API.DaemonHost())
	value := func(name string) string {
		for _, spelling := range []string{name, strings.ToLower(name)} {
			if v := args[spelling]; v != nil && *v != "" {
				return *v
			}
			if v := h.Getenv(spelling); v != "" {
				return v
			}
		}
		return ""
	}
	reachable := func(address string) egress.Secret {
		u, err := url.Parse(address)
		if err != nil || egress.IsLocal(u.Hostname()) {
			return ""
		}
		return egress.Secret(address)
	}
	return egress.Upstream{HTTP: reachable(value("HTTP_PROXY")), HTTPS: reachable(value("HTTPS_PROXY")), No: value("NO_PROXY")}
}
