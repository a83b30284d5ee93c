package container

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// joinNetwork configures the network of a sandbox, if it has a network policy.
func (d *Driver) joinNetwork(spec lifecycle.Spec, g *prerequisites, config *container.Config, host *container.HostConfig, l map[string]string) (*network.NetworkingConfig, error) {
	mode, n := spec.Egress.Policy.Mode, g.network
	if mode == "" {
		return nil, nil
	}
	l[labelEgress], l[labelNetwork] = string(mode), n.name
	if mode != egress.AllowAll {
		l[labelProxy] = n.proxy.String()
	}
	if g.holder != "" {
		l[labelNetns] = g.holder
		host.NetworkMode = container.NetworkMode("container:" + g.holder)
		config.Hostname = "" // that of the pause container
		return nil, nil
	}
	if mode != egress.AllowAll {
		m, err := d.resolverMount(spec.Name, n.proxy)
		if err != nil {
			return nil, err
		}
		host.Mounts = append(host.Mounts, m)
	}
	return attachNetwork(spec, n, host), nil
}

// attachNetwork attaches a container to the network of a sandbox, with the sandbox's
// address.
func attachNetwork(spec lifecycle.Spec, n sandboxNetwork, host *container.HostConfig) *network.NetworkingConfig {
	host.NetworkMode = container.NetworkMode(n.name)
	if hasIPv6() {
		host.Sysctls = map[string]string{"net.ipv6.conf.all.disable_ipv6": "1"}
	}
	if spec.Egress.Policy.Mode != egress.AllowAll {
		// The engine's resolver would forward queries to that of the host.
		host.DNS = []netip.Addr{n.proxy}
		shortenTimeouts(host)
	}
	return &network.NetworkingConfig{EndpointsConfig: map[string]*network.EndpointSettings{
		n.name: {IPAMConfig: &network.EndpointIPAMConfig{IPv4Address: n.agent}},
	}}
}

// shortenTimeouts makes programs fail within seconds when the proxy is gone. The kernel
// reports no error while its neighbor entry is valid, so that connecting would take
// more than a minute, and each DNS query ten seconds. The proxy is on this machine.
func shortenTimeouts(host *container.HostConfig) {
	host.DNSOptions = []string{"timeout:2", "attempts:2"}
	if host.Sysctls == nil {
		host.Sysctls = map[string]string{}
	}
	host.Sysctls["net.ipv4.tcp_syn_retries"] = "2" // seven seconds
}

// hasIPv6 reports whether the kernel has the setting that disables IPv6. The kernel
// is that of the engine on Linux only.
func hasIPv6() bool {
	if runtime.GOOS != "linux" {
		return true
	}
	_, err := os.Stat("/proc/sys/net/ipv6/conf/all/disable_ipv6")
	return err == nil
}

// networkMissing reports whether starting a container failed because its network was
// removed, as "docker network prune" does for stopped containers.
func networkMissing(err error) bool {
	said := err.Error()
	return strings.Contains(said, "network") && strings.Contains(said, "not found")
}

// recreateNetwork recreates the network of a stopped sandbox with the same addresses.
func (d *Driver) recreateNetwork(ctx context.Context, sb lifecycle.Sandbox) error {
	owner, err := d.inspectNetworkOwner(ctx, sb)
	if err != nil {
		return err
	}
	res, err := d.API.ContainerInspect(ctx, sb.ID, client.ContainerInspectOptions{})
	if err != nil {
		return err
	}
	name := res.Container.Config.Labels[labelNetwork]
	was := owner.NetworkSettings.Networks[name]
	if was == nil || was.IPAMConfig == nil {
		return hint.Wrap(fmt.Errorf("network %s was removed", name), "recreate the sandbox with --recreate")
	}
	n, subnet := networkOf(name, was.IPAMConfig.IPv4Address)
	spec := lifecycle.Spec{Name: sb.Name}
	spec.Egress.Policy.Mode = sb.Egress
	if _, err := d.API.NetworkCreate(ctx, name, networkOptions(spec, n, subnet)); err != nil {
		return fmt.Errorf("recreating the network %s: %w", name, err)
	}
	if _, err := d.API.NetworkDisconnect(ctx, name, client.NetworkDisconnectOptions{Container: owner.ID, Force: true}); err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("disconnecting from the removed network: %w", err)
	}
	_, err = d.API.NetworkConnect(ctx, name, client.NetworkConnectOptions{
		Container:      owner.ID,
		EndpointConfig: &network.EndpointSettings{IPAMConfig: &network.EndpointIPAMConfig{IPv4Address: n.agent}},
	})
	if err != nil {
		return fmt.Errorf("connecting to the network %s: %w", name, err)
	}
	return nil
}

// removeCreatedNetwork removes the network and the pause container of a sandbox that
// could not be created.
func (d *Driver) removeCreatedNetwork(ctx context.Context, name, holder string) error {
	ctx = context.WithoutCancel(ctx)
	var errs []error
	if holder != "" {
		errs = append(errs, d.removeContainer(ctx, holder))
	}
	if name != "" {
		errs = append(errs, d.removeNetwork(ctx, name))
	}
	return errors.Join(errs...)
}
