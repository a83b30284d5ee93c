package container

import (
	"context"
	"net/netip"
	"os"
	"runtime"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/egress"
)

// join makes the network of a sandbox and puts the sandbox into it. Without a
// policy there is nothing to do.
func (d *Driver) join(ctx context.Context, spec lifecycle.Spec, host *container.HostConfig, l map[string]string) (*network.NetworkingConfig, error) {
	mode := spec.Egress.Policy.Mode
	if mode == "" {
		return nil, nil
	}
	n, err := d.makeNetwork(ctx, spec)
	if err != nil {
		return nil, err
	}
	l[labelEgress], l[labelNetwork] = string(mode), n.name
	if mode != egress.AllowAll {
		l[labelProxy] = n.proxy.String()
		// The engine's resolver would ask the host's, and so the world.
		host.DNS = []netip.Addr{n.proxy}
	}
	host.NetworkMode = container.NetworkMode(n.name)
	if hasIPv6() {
		host.Sysctls = map[string]string{"net.ipv6.conf.all.disable_ipv6": "1"}
	}
	return &network.NetworkingConfig{EndpointsConfig: map[string]*network.EndpointSettings{
		n.name: {IPAMConfig: &network.EndpointIPAMConfig{IPv4Address: n.agent}},
	}}, nil
}

// hasIPv6 tells whether IPv6 can be switched off. A kernel without it, which is
// the engine's only on Linux, knows no such setting.
func hasIPv6() bool {
	if runtime.GOOS != "linux" {
		return true
	}
	_, err := os.Stat("/proc/sys/net/ipv6/conf/all/disable_ipv6")
	return err == nil
}

// leaveNetwork removes the network of a sandbox that there will not be.
func (d *Driver) leaveNetwork(ctx context.Context, l map[string]string) error {
	if l[labelNetwork] == "" {
		return nil
	}
	return d.removeNetwork(context.WithoutCancel(ctx), l[labelNetwork])
}
