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
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// join has a sandbox use its network. Without a policy there is nothing to do.
func (d *Driver) join(spec lifecycle.Spec, g *ground, config *container.Config, host *container.HostConfig, l map[string]string) (*network.NetworkingConfig, error) {
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
		config.Hostname = "" // that of the holder
		return nil, nil
	}
	if mode != egress.AllowAll {
		m, err := d.resolverMount(spec.Name, n.proxy)
		if err != nil {
			return nil, err
		}
		host.Mounts = append(host.Mounts, m)
	}
	return enter(spec, n, host), nil
}

// enter puts a container into the network of a sandbox, at the sandbox's place.
func enter(spec lifecycle.Spec, n sandboxNetwork, host *container.HostConfig) *network.NetworkingConfig {
	host.NetworkMode = container.NetworkMode(n.name)
	if hasIPv6() {
		host.Sysctls = map[string]string{"net.ipv6.conf.all.disable_ipv6": "1"}
	}
	if spec.Egress.Policy.Mode != egress.AllowAll {
		// The engine's resolver would ask the host's, and so the world.
		host.DNS = []netip.Addr{n.proxy}
		giveUpSoon(host)
	}
	return &network.NetworkingConfig{EndpointsConfig: map[string]*network.EndpointSettings{
		n.name: {IPAMConfig: &network.EndpointIPAMConfig{IPv4Address: n.agent}},
	}}
}

// giveUpSoon has programs fail within seconds when the proxy is gone. What was
// sent to it a moment ago is sent to where it was until the kernel looks again,
// so no error comes back, and a program would wait for as long as it takes to
// reach the other side of the world: more than a minute to connect, and ten
// seconds for each name. The proxy, if it is there, is on this machine.
func giveUpSoon(host *container.HostConfig) {
	host.DNSOptions = []string{"timeout:2", "attempts:2"}
	if host.Sysctls == nil {
		host.Sysctls = map[string]string{}
	}
	host.Sysctls["net.ipv4.tcp_syn_retries"] = "2" // seven seconds
}

// hasIPv6 reports whether IPv6 can be switched off. A kernel without it, which is
// the engine's only on Linux, knows no such setting.
func hasIPv6() bool {
	if runtime.GOOS != "linux" {
		return true
	}
	_, err := os.Stat("/proc/sys/net/ipv6/conf/all/disable_ipv6")
	return err == nil
}

// lacksNetwork reports whether a container cannot be started because its network is
// gone: "docker network prune" takes those of stopped containers.
func lacksNetwork(err error) bool {
	said := err.Error()
	return strings.Contains(said, "network") && strings.Contains(said, "not found")
}

// rejoin makes the network of a stopped sandbox again, as it was.
func (d *Driver) rejoin(ctx context.Context, sb lifecycle.Sandbox) error {
	owner, err := d.networkOwner(ctx, sb)
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
		return fmt.Errorf("its network %s is gone, and nobody knows what it was like: run the command with --recreate", name)
	}
	n, subnet := networkOf(name, was.IPAMConfig.IPv4Address)
	spec := lifecycle.Spec{Name: sb.Name}
	spec.Egress.Policy.Mode = sb.Egress
	if _, err := d.API.NetworkCreate(ctx, name, networkOptions(spec, n, subnet)); err != nil {
		return fmt.Errorf("making the network %s again: %w", name, err)
	}
	if _, err := d.API.NetworkDisconnect(ctx, name, client.NetworkDisconnectOptions{Container: owner.ID, Force: true}); err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("leaving the network that is gone: %w", err)
	}
	_, err = d.API.NetworkConnect(ctx, name, client.NetworkConnectOptions{
		Container:      owner.ID,
		EndpointConfig: &network.EndpointSettings{IPAMConfig: &network.EndpointIPAMConfig{IPv4Address: n.agent}},
	})
	if err != nil {
		return fmt.Errorf("joining the network %s again: %w", name, err)
	}
	return nil
}

// leaveNetwork removes the network of a sandbox that there will not be, and who
// holds it, as far as there are such.
func (d *Driver) leaveNetwork(ctx context.Context, name, holder string) error {
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
