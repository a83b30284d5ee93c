package container

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"golang.org/x/sync/errgroup"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/egress/canary"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container/engine"
	"github.com/docker-ralph/docker-ralph/lifecycle/guestbin"
	"github.com/docker-ralph/docker-ralph/wire"
	"github.com/docker-ralph/docker-ralph/wire/budget"
)

// A sandbox with a network policy is isolated in one of three ways:
//
//   - It has no network. Its first process forwards the proxy's ports to unix sockets on a
//     volume, on which the proxy listens.
//   - A runtime with its own network stack cannot connect to sockets of the machine's
//     kernel. There, the sandbox and its proxy share an internal network.
//   - With the policy allow-all there is no proxy. The sandbox has an ordinary network, with
//     a firewall in its namespace that is put in place whenever it has started.
//
// The canary verifies the latter two.

// isolation is what a container is created with.
type isolation struct {
	mode    egress.Mode // empty for an ordinary container
	network string      // of the sandbox alone; empty for none
	proxy   netip.Addr
	agent   netip.Addr    // of the sandbox in its network
	remote  bool          // the engine is on another machine
	mounts  []mount.Mount // sockets of the proxy, or a file that names it as the resolver
}

// isolate creates what the isolation of a client's sandbox needs, but for the volume of its sockets. If it fails,
// it returns what was created.
func (d *Driver) isolate(ctx context.Context, spec lifecycle.Spec, of string) (isolation, error) {
	i := isolation{mode: spec.Egress.Policy.Mode, remote: !engine.Local(d.Host)}
	own := d.hasOwnStack(ctx, spec.Runtime)
	switch {
	case i.mode == egress.AllowAll && own:
		return i, hint.Wrap(fmt.Errorf("the runtime %s has its own network stack, on which the firewall has no effect", spec.Runtime), "use another network policy than %q", egress.AllowAll)
	case i.mode == egress.AllowAll:
		_, err := d.listNetworks(ctx)
		return i, err
	case own && !engine.Local(d.Host):
		return i, fmt.Errorf("the runtime %s has its own network stack, which is not supported on a remote engine", spec.Runtime)
	case own:
		n, err := d.createNetwork(ctx, spec, of, newNetworkName(spec.Name))
		i.network, i.proxy, i.agent = n.name, n.proxy, n.agent
		if err != nil {
			return i, err
		}
		m, err := d.resolverMount(spec.Name, n.proxy)
		i.mounts = []mount.Mount{m}
		return i, err
	}
	i.proxy = netip.MustParseAddr(wire.ProxyAddress)
	i.mounts = []mount.Mount{socketsMount(spec.Name, of, true)}
	return i, nil
}

// usesSockets reports whether a sandbox is to reach its proxy by sockets.
func (d *Driver) usesSockets(ctx context.Context, spec lifecycle.Spec) bool {
	mode := spec.Egress.Policy.Mode
	return mode != "" && mode != egress.AllowAll && !d.hasOwnStack(ctx, spec.Runtime)
}

// apply adds the isolation to the configuration of a container, and its labels to l.
func (i isolation) apply(config *container.Config, host *container.HostConfig, l map[string]string) *network.NetworkingConfig {
	if i.mode == "" {
		return nil
	}
	l[labelEgress] = string(i.mode)
	host.Sysctls = i.ipv6()
	host.Mounts = append(host.Mounts, i.mounts...)
	for _, name := range egress.LoopbackNames() {
		host.ExtraHosts = append(host.ExtraHosts, name+":127.0.0.1")
	}
	if i.mode == egress.AllowAll {
		l[labelNetwork] = egressNetwork
		host.NetworkMode = egressNetwork
		return nil
	}
	l[labelProxy] = i.proxy.String()
	// The engine's resolver would forward queries to that of the host.
	host.DNS = []netip.Addr{i.proxy}
	host.DNSOptions = []string{"timeout:2", "attempts:2"}
	if i.network == "" {
		host.NetworkMode = "none"
		// With a network, the engine adds this line.
		host.ExtraHosts = append(host.ExtraHosts, egress.Hostname+":127.0.0.1")
		host.Sysctls["net.ipv4.ip_unprivileged_port_start"] = "0"
		config.Cmd = []string{"proxy"}
		return nil
	}
	l[labelNetwork] = i.network
	host.NetworkMode = container.NetworkMode(i.network)
	// Programs fail within seconds when the proxy does not run, although the kernel
	// remembers where it was.
	host.Sysctls["net.ipv4.tcp_syn_retries"] = "2" // seven seconds
	return &network.NetworkingConfig{EndpointsConfig: map[string]*network.EndpointSettings{
		i.network: {IPAMConfig: &network.EndpointIPAMConfig{IPv4Address: i.agent}},
	}}
}

// hasNoNetwork reports whether a sandbox reaches its proxy by sockets.
func hasNoNetwork(sb lifecycle.Sandbox) bool { return sb.Proxy == wire.ProxyAddress }

// verified identifies the state in which a sandbox was found to be isolated.
type verified struct {
	run         string // [lifecycle.Sandbox.Run]
	networks    string // [engineNetworks.digest]
	proxyConfig string // hash of its proxy's configuration; "" if that is unknown
	outdated    bool   // its proxy is of another version: the next command verifies again
}

// verify starts the proxy of a running sandbox and verifies that there is no other way
// out. Nothing is run in a sandbox before that.
func (d *Driver) verify(ctx context.Context, sb lifecycle.Sandbox, spec lifecycle.Spec) (v verified, err error) {
	var agent container.InspectResponse
	var image string
	var engineNets engineNetworks
	group, groupCtx := errgroup.WithContext(ctx)
	// Inspect first: a container that is restarted in the meantime has another time.
	group.Go(func() error {
		res, err := d.API.ContainerInspect(groupCtx, sb.ID, client.ContainerInspectOptions{})
		if err != nil {
			return fmt.Errorf("inspecting sandbox %s: %w", sb.Name, err)
		}
		agent = res.Container
		return nil
	})
	group.Go(func() (err error) { image, err = d.ensureEgress(groupCtx); return err })
	group.Go(func() (err error) { engineNets, err = d.listNetworks(groupCtx); return err })
	if err := group.Wait(); err != nil {
		return verified{}, err
	}
	if other := extraNetwork(agent); other != "" {
		return verified{}, hint.Wrap(fmt.Errorf("sandbox %s is connected to network %s, which bypasses its proxy", sb.Name, other), "run %q", "docker network disconnect "+other+" "+sb.Name)
	}
	reused := false
	group, groupCtx = errgroup.WithContext(ctx)
	if sb.Proxy != "" {
		group.Go(func() (err error) {
			reused, err = d.startProxy(groupCtx, sb, agent, spec.Egress, image, engineNets)
			return err
		})
	}
	if !hasNoNetwork(sb) {
		group.Go(func() error { return d.runCanary(groupCtx, sb, agent, image, engineNets) })
	}
	if err := group.Wait(); err != nil {
		return verified{}, err
	}
	var proxy container.InspectResponse
	if sb.Proxy != "" {
		if proxy, _, err = engine.Inspect(ctx, d.API, proxyName(sb.Name)); err != nil {
			return verified{}, fmt.Errorf("inspecting the proxy of %s: %w", sb.Name, err)
		}
		v.outdated = proxy.Config != nil && proxy.Config.Image != image
	}
	v.run, v.networks = runOf(sb, agent, proxy), engineNets.digest()
	if _, m, _ := d.readFullMarker(sb); reused && m.Run == v.run {
		v.proxyConfig = m.ProxyConfig
	} else if !reused && sb.Proxy != "" {
		v.proxyConfig, err = proxyConfigHash(spec.Egress)
	}
	return v, err
}

// extraNetwork returns a network to which a sandbox was connected by hand.
func extraNetwork(agent container.InspectResponse) string {
	want := agent.Config.Labels[labelNetwork]
	for _, name := range networkNames(agent) {
		if name != want && name != "none" {
			return name
		}
	}
	return ""
}

func networkNames(c container.InspectResponse) []string {
	if c.NetworkSettings == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(c.NetworkSettings.Networks))
}

// runOf returns [lifecycle.Sandbox.Run]: the last start of the sandbox, if it has a network,
// its proxy and the last start of that, and the networks of the sandbox.
func runOf(sb lifecycle.Sandbox, agent, proxy container.InspectResponse) string {
	since := func(c container.InspectResponse) string {
		if c.State == nil || !c.State.Running || c.State.Paused {
			return "-"
		}
		return c.State.StartedAt
	}
	began := "-"
	if !hasNoNetwork(sb) {
		began = since(agent)
	}
	if sb.Proxy == "" {
		proxy = container.InspectResponse{}
	}
	return strings.Join(append([]string{began, proxy.ID, since(proxy)}, networkNames(agent)...), " ")
}

// How long the canary waits for connections that must fail: behind a firewall, and
// in an internal network alone.
const (
	waitFirewall   = 250 * time.Millisecond
	waitUnfiltered = time.Second
)

// runCanary verifies the isolation of a sandbox with a network. It puts the firewall in
// place if that is open.
func (d *Driver) runCanary(ctx context.Context, sb lifecycle.Sandbox, agent container.InspectResponse, image string, engineNets engineNetworks) error {
	q := canary.Question{Hosts: slices.Clone(engineNets.gateways), Wait: waitUnfiltered, Timeout: proxyTimeout}
	var host *container.HostConfig
	var err error
	user := initUser
	if sb.Proxy == "" {
		q.Wait, q.Near = waitFirewall, engineNets.subnets
		user = "0:0" // no other user can be given a capability
		if host, err = d.helperHostConfig(ctx, 64<<20, 128); err != nil {
			return err
		}
		host.CapAdd = []string{"NET_ADMIN"}
		host.NetworkMode = container.NetworkMode("container:" + agent.ID)
	} else {
		if q.Proxy, err = netip.ParseAddr(sb.Proxy); err != nil {
			return err
		}
		q.Hosts = append(q.Hosts, q.Proxy.Prev()) // where a gateway would be
		if host, err = d.sameNetwork(ctx, agent); err != nil {
			return err
		}
	}
	arg, err := q.Encode()
	if err != nil {
		return err
	}
	out, err := d.runEgress(ctx, sb, image, user, host, "canary", arg)
	if err != nil {
		return fmt.Errorf("verifying the isolation of %s: %w", sb.Name, err)
	}
	answer, err := canary.ParseAnswer(out)
	if err == nil {
		err = answer.Err()
	}
	if err != nil {
		return fmt.Errorf("sandbox %s is not isolated: %w", sb.Name, err)
	}
	if sb.Proxy == "" {
		d.cached.mu.Lock()
		delete(d.cached.open, sb.ID)
		d.cached.mu.Unlock()
	}
	return nil
}

// ensureFirewall puts the firewall in place in a sandbox with the policy allow-all that this
// process has started, but not prepared.
func (d *Driver) ensureFirewall(ctx context.Context, sb lifecycle.Sandbox) error {
	d.cached.mu.Lock()
	open := d.cached.open[sb.ID]
	d.cached.mu.Unlock()
	if !open {
		return nil
	}
	res, err := d.API.ContainerInspect(ctx, sb.ID, client.ContainerInspectOptions{})
	if err != nil {
		return fmt.Errorf("inspecting sandbox %s: %w", sb.Name, err)
	}
	image, err := d.ensureEgress(ctx)
	if err != nil {
		return err
	}
	engineNets, err := d.listNetworks(ctx)
	if err != nil {
		return err
	}
	return d.runCanary(ctx, sb, res.Container, image, engineNets)
}

// sameNetwork returns the configuration of a helper in the network of a sandbox.
func (d *Driver) sameNetwork(ctx context.Context, agent container.InspectResponse) (*container.HostConfig, error) {
	host, err := d.helperHostConfig(ctx, 64<<20, 128)
	if err != nil {
		return nil, err
	}
	host.Runtime = agent.HostConfig.Runtime
	host.NetworkMode = agent.HostConfig.NetworkMode
	host.DNS = agent.HostConfig.DNS
	for _, m := range agent.HostConfig.Mounts {
		if m.Target == resolverFile {
			host.Mounts = append(host.Mounts, m)
		}
	}
	host.Sysctls = agent.HostConfig.Sysctls
	return host, nil
}

// hasOwnStack reports whether a runtime may have its own network stack, on which
// netfilter rules have no effect. Unknown runtimes may.
func (d *Driver) hasOwnStack(ctx context.Context, runtime string) bool {
	if runtime == "" {
		if info, err := d.info(ctx); err == nil {
			runtime = info.DefaultRuntime
		}
	}
	return !slices.Contains([]string{"", "runc", "crun", "youki", "nvidia", "io.containerd.runc.v2"}, runtime)
}

// runEgress runs a command of ralph-egress in a new container and returns its output.
// maxReport is the budget of what our program says in a container, in bytes.
const maxReport = 4 << 20

// The engine removes the container in the background.
func (d *Driver) runEgress(ctx context.Context, sb lifecycle.Sandbox, image, user string, host *container.HostConfig, args ...string) (output []byte, err error) {
	host.AutoRemove = true
	made, err := d.API.ContainerCreate(ctx, client.ContainerCreateOptions{
		Config: &container.Config{
			Image:        image,
			User:         user,
			Entrypoint:   append([]string{"/" + guestbin.EgressProgram}, args...),
			Labels:       engine.PartLabels(sb.Name, sb.Client, engine.RoleHelper),
			AttachStdout: true,
			AttachStderr: true,
		},
		HostConfig: host,
	})
	if err != nil {
		return nil, err
	}
	ended := false
	defer func() {
		if !ended {
			err = errors.Join(err, engine.RemoveContainer(context.WithoutCancel(ctx), d.API, made.ID))
		}
	}()
	conn, err := d.API.ContainerAttach(ctx, made.ID, client.ContainerAttachOptions{Stream: true, Stdout: true, Stderr: true})
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, conn.Close)()
	wait := d.API.ContainerWait(ctx, made.ID, client.ContainerWaitOptions{Condition: container.WaitConditionNextExit})
	if _, err := d.API.ContainerStart(ctx, made.ID, client.ContainerStartOptions{}); err != nil {
		return nil, err
	}
	out, errOutput := budget.New(maxReport, "the report"), budget.NewHead(maxReport)
	if err := engine.Demultiplex(out, errOutput, conn.Reader); err != nil {
		return nil, err
	}
	select {
	case err := <-wait.Error:
		return nil, err
	case res := <-wait.Result:
		ended = true
		if res.StatusCode != 0 {
			said := strings.Join(strings.Fields(errOutput.String()), " ")
			return nil, fmt.Errorf("exit code %d: %s", res.StatusCode, strings.TrimPrefix(said, "Error: "))
		}
		return out.Bytes(), nil
	}
}
