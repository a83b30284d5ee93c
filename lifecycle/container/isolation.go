package container

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"golang.org/x/sync/errgroup"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/egress/canary"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/guestbin"
)

// isolation is a verified isolation of a sandbox's network.
type isolation struct {
	run        string // identifies the run of containers for which it holds: [runOf]
	configHash string // configuration of its proxy; empty if unknown
}

// isolate starts the proxy of a running sandbox, blocks all other connections, and
// verifies that they are blocked. No command runs in a sandbox before.
func (d *Driver) isolate(ctx context.Context, sb lifecycle.Sandbox, spec lifecycle.Spec) (isolated isolation, err error) {
	var owner container.InspectResponse
	var image string
	var engineNets engineNetworks
	group, groupCtx := errgroup.WithContext(ctx)
	// Inspect first: a container that is restarted in the meantime has another time.
	group.Go(func() (err error) { owner, err = d.inspectNetworkOwner(groupCtx, sb); return err })
	group.Go(func() (err error) { image, err = d.ensureEgress(groupCtx); return err })
	group.Go(func() (err error) { engineNets, err = d.listNetworks(groupCtx); return err })
	if err := group.Wait(); err != nil {
		return isolation{}, err
	}
	reused := false
	group, groupCtx = errgroup.WithContext(ctx)
	there := make(chan struct{})
	if sb.Proxy != "" {
		group.Go(func() (err error) {
			if reused, err = d.startProxy(groupCtx, sb, owner, spec.Egress, image, engineNets); err != nil {
				return err
			}
			close(there)
			return nil
		})
	}
	group.Go(func() error { return d.verifyIsolation(groupCtx, sb, owner, image, engineNets, there) })
	if err := group.Wait(); err != nil {
		return isolation{}, err
	}
	// The canary does not see it behind an existing firewall.
	if other := foreignNetwork(owner); other != "" {
		taken := strings.TrimPrefix(owner.Name, "/")
		return isolation{}, hint.Wrap(fmt.Errorf("the sandbox %s is connected to the network %s, which bypasses its proxy", sb.Name, other),
			"run %q", "docker network disconnect "+other+" "+taken)
	}
	var proxy container.InspectResponse
	if sb.Proxy != "" {
		if proxy, _, err = d.inspectNamed(ctx, proxyName(sb.Name)); err != nil {
			return isolation{}, fmt.Errorf("inspecting the proxy of %s: %w", sb.Name, err)
		}
	}
	d.engine.mu.Lock()
	delete(d.engine.unfiltered, sb.ID)
	d.engine.mu.Unlock()
	isolated.run = runOf(owner, proxy)
	if _, m, _ := d.readFullMarker(sb); reused && m.Run == isolated.run {
		isolated.configHash = m.Told
	} else if !reused && sb.Proxy != "" {
		isolated.configHash, err = proxyConfigHash(spec.Egress)
	}
	return isolated, err
}

// foreignNetwork returns a network that a sandbox was connected to by others.
func foreignNetwork(owner container.InspectResponse) string {
	for _, name := range networksOf(owner) {
		if name != owner.Config.Labels[labelNetwork] && name != "none" {
			return name
		}
	}
	return ""
}

func networksOf(c container.InspectResponse) []string {
	if c.NetworkSettings == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(c.NetworkSettings.Networks))
}

// runOf identifies the current run of a network's owner and a proxy, and the networks
// that the owner is connected to.
func runOf(owner, proxy container.InspectResponse) string {
	since := func(c container.InspectResponse) string {
		if c.State == nil || !c.State.Running || c.State.Paused {
			return "-"
		}
		return c.State.StartedAt
	}
	return strings.Join(append([]string{since(owner), proxy.ID, since(proxy)}, networksOf(owner)...), " ")
}

// How long the canary waits for connections that must fail: behind a firewall, and
// in an internal network alone.
const (
	waitFirewall   = 250 * time.Millisecond
	waitUnfiltered = time.Second
)

// canaryQuestion returns what the canary verifies in the network of a sandbox.
func canaryQuestion(sb lifecycle.Sandbox, engineNets engineNetworks) (canary.Question, error) {
	q := canary.Question{Hosts: slices.Clone(engineNets.gateways), Wait: waitUnfiltered, Patience: proxyTimeout}
	if sb.Proxy != "" {
		address, err := netip.ParseAddr(sb.Proxy)
		if err != nil {
			return canary.Question{}, err
		}
		q.Proxy = address
		q.Hosts = append(q.Hosts, address.Prev()) // where a gateway would be
	}
	if sb.Netns != "" {
		q.Firewall, q.Wait, q.Near = true, waitFirewall, engineNets.subnets
	}
	return q, nil
}

// verifyIsolation sets up the firewall, if the runtime supports it, and runs the canary,
// which waits for the proxy.
func (d *Driver) verifyIsolation(ctx context.Context, sb lifecycle.Sandbox, owner container.InspectResponse, image string, engineNets engineNetworks, there <-chan struct{}) error {
	q, err := canaryQuestion(sb, engineNets)
	if err != nil {
		return err
	}
	if sb.Netns != "" {
		q.Await = owner.Config.Image == image
	} else if sb.Proxy == "" {
		return hint.Wrap(fmt.Errorf("the runtime %s has its own network stack, in which local networks cannot be blocked", owner.HostConfig.Runtime), "use another network policy than %q", egress.AllowAll)
	}
	arg, err := q.Encode()
	if err != nil {
		return err
	}
	var out []byte
	if sb.Netns != "" {
		out, err = d.runInNetworkOf(ctx, sb, owner, image, lineAfter(ctx, there), "canary", arg)
	} else {
		// The firewall of the kernel has no effect on such a runtime.
		var host *container.HostConfig
		if host, err = d.sameNetwork(ctx, owner); err == nil {
			out, err = d.runEgress(ctx, sb, image, initUser, host, "canary", arg)
		}
	}
	if err != nil {
		return fmt.Errorf("verifying the isolation of %s: %w", sb.Name, err)
	}
	answer, err := canary.ParseAnswer(out)
	if err == nil {
		err = answer.Err()
	}
	if err != nil {
		return fmt.Errorf("the sandbox %s is not isolated: %w", sb.Name, err)
	}
	return nil
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

// ensureFirewall sets up the firewall of a sandbox that was started without preparing
// it, so that no command runs without it. It may have no proxy then.
func (d *Driver) ensureFirewall(ctx context.Context, sb lifecycle.Sandbox) error {
	d.engine.mu.Lock()
	unfiltered := d.engine.unfiltered[sb.ID]
	d.engine.mu.Unlock()
	if !unfiltered || sb.Netns == "" { // an internal network is isolated by itself
		return nil
	}
	now, err := d.Lookup(ctx, sb.Name)
	if err != nil {
		return err
	}
	if _, ok := d.prepared(now); now.ID != sb.ID || !ok {
		if err := d.enforceFirewall(ctx, sb); err != nil {
			return fmt.Errorf("setting up the firewall of %s: %w", sb.Name, err)
		}
	}
	d.engine.mu.Lock()
	delete(d.engine.unfiltered, sb.ID)
	d.engine.mu.Unlock()
	return nil
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
// The engine removes the container in the background.
func (d *Driver) runEgress(ctx context.Context, sb lifecycle.Sandbox, image, user string, host *container.HostConfig, args ...string) (output []byte, err error) {
	host.AutoRemove = true
	made, err := d.API.ContainerCreate(ctx, client.ContainerCreateOptions{
		Config: &container.Config{
			Image:        image,
			User:         user,
			Entrypoint:   append([]string{"/" + guestbin.EgressProgram}, args...),
			Labels:       ownLabels(sb.Name, roleHelper),
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
			err = errors.Join(err, d.removeContainer(context.WithoutCancel(ctx), made.ID))
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
	var out, errOutput bytes.Buffer
	if err := demultiplex(&out, &errOutput, conn.Reader); err != nil {
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
