package container

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"golang.org/x/sync/errgroup"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/guestbin"
)

// An isolated sandbox joins the network namespace of a pause container, like the
// containers of a pod. Firewall rules in it outlive restarts of the sandbox. Execs in
// the pause container, which runs nothing of the agent, set them with a capability
// that no process of the sandbox has.

const (
	pauseMemory = 64 << 20
	pausePids   = 128
	// pauseUser is root, because other users cannot get capabilities.
	pauseUser = "0:0"
)

// createNetworkAndPause creates the network of a sandbox and starts its pause
// container, unless the sandbox's runtime has its own network stack. The container is
// created in parallel, with the addresses that are tried first. After a failure, it
// returns what exists.
func (d *Driver) createNetworkAndPause(ctx context.Context, spec lifecycle.Spec) (n sandboxNetwork, holder string, err error) {
	name := newNetworkName(spec.Name)
	if d.hasOwnStack(ctx, spec.Runtime) {
		n, err = d.createNetwork(ctx, spec, name)
		return n, "", err
	}
	expected, _ := networkAt(firstIndex(name), name)
	var group errgroup.Group
	group.Go(func() (err error) { n, err = d.createNetwork(ctx, spec, name); return err })
	group.Go(func() (err error) { holder, err = d.createPauseContainer(ctx, spec, expected); return err })
	if err := group.Wait(); err != nil {
		return n, holder, err
	}
	if n != expected {
		if err := d.removeContainer(ctx, holder); err != nil {
			return n, holder, err
		}
		if holder, err = d.createPauseContainer(ctx, spec, n); err != nil {
			return n, holder, err
		}
	}
	if _, err := d.API.ContainerStart(ctx, holder, client.ContainerStartOptions{}); err != nil {
		return n, holder, fmt.Errorf("starting the pause container of %s: %w", spec.Name, err)
	}
	return n, holder, nil
}

// createPauseContainer creates the pause container of a sandbox, possibly before the
// network. It has the network's name, which is thereby reserved.
func (d *Driver) createPauseContainer(ctx context.Context, spec lifecycle.Spec, n sandboxNetwork) (id string, err error) {
	image, err := d.ensureEgress(ctx)
	if err != nil {
		return "", err
	}
	host, err := d.helperHostConfig(ctx, pauseMemory, pausePids)
	if err != nil {
		return "", err
	}
	host.Runtime = spec.Runtime
	host.CapAdd = []string{"NET_ADMIN"} // dropped by its main process, used by execs
	networking := attachNetwork(spec, n, host)
	own := ownLabels(spec.Name, roleNetns)
	own[labelNetwork] = n.name
	made, err := d.API.ContainerCreate(ctx, client.ContainerCreateOptions{
		Name: n.name,
		Config: &container.Config{
			Image:      image,
			User:       pauseUser,
			Hostname:   hostname,
			Entrypoint: []string{"/" + guestbin.EgressProgram, "hold"},
			Labels:     own,
		},
		HostConfig:       host,
		NetworkingConfig: networking,
	})
	if err != nil {
		return "", fmt.Errorf("creating the pause container of %s: %w", spec.Name, err)
	}
	return made.ID, nil
}

// lineAfter returns a reader of one line that blocks until a channel is closed.
func lineAfter(ctx context.Context, there <-chan struct{}) io.Reader {
	r, w := io.Pipe()
	go func() {
		select {
		case <-there:
			_, _ = w.Write([]byte("\n"))
		case <-ctx.Done():
		}
		_ = w.Close()
	}()
	return r
}

// inspectNetworkOwner inspects the container that owns the network namespace of a
// sandbox.
func (d *Driver) inspectNetworkOwner(ctx context.Context, sb lifecycle.Sandbox) (container.InspectResponse, error) {
	id := sb.Netns
	if id == "" {
		id = sb.ID
	}
	res, err := d.API.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if err != nil {
		return container.InspectResponse{}, fmt.Errorf("inspecting the network of %s: %w", sb.Name, err)
	}
	return res.Container, nil
}

// orphaned reports whether a running sandbox is in a network namespace that its pause
// container has left, because it was restarted or has exited.
func orphaned(agent, owner container.InspectResponse) bool {
	if agent.ID == owner.ID || agent.State == nil || !agent.State.Running {
		return false
	}
	if owner.State == nil || !owner.State.Running {
		return true
	}
	began, err := time.Parse(time.RFC3339Nano, owner.State.StartedAt)
	joined, errJoined := time.Parse(time.RFC3339Nano, agent.State.StartedAt)
	return err != nil || errJoined != nil || joined.Before(began)
}

// enforceFirewall sets up the firewall, without verifying it.
func (d *Driver) enforceFirewall(ctx context.Context, sb lifecycle.Sandbox) error {
	owner, err := d.inspectNetworkOwner(ctx, sb)
	if err != nil {
		return err
	}
	image, err := d.ensureEgress(ctx)
	if err != nil {
		return err
	}
	rules := []string{"firewall", "-proxy", sb.Proxy}
	if sb.Proxy == "" {
		engineNets, err := d.listNetworks(ctx)
		if err != nil {
			return err
		}
		rules = []string{"firewall", "-open"}
		for _, near := range engineNets.subnets {
			rules = append(rules, "-near", near.String())
		}
	}
	_, err = d.runInNetworkOf(ctx, sb, owner, image, nil, rules...)
	return err
}

// runInNetworkOf runs a command of ralph-egress in the network of a sandbox: as an exec
// in the pause container, or in a new container if the pause container has another
// version of the program. Only the former gets stdin.
func (d *Driver) runInNetworkOf(ctx context.Context, sb lifecycle.Sandbox, owner container.InspectResponse, image string, stdin io.Reader, args ...string) ([]byte, error) {
	if owner.Config.Image == image {
		out, err := d.runWith(ctx, owner.ID, pauseUser, stdin, append([]string{"/" + guestbin.EgressProgram}, args...)...)
		return []byte(out), err
	}
	host, err := d.helperHostConfig(ctx, pauseMemory, pausePids)
	if err != nil {
		return nil, err
	}
	host.Runtime = owner.HostConfig.Runtime
	host.CapAdd = owner.HostConfig.CapAdd
	host.NetworkMode = container.NetworkMode("container:" + owner.ID)
	return d.runEgress(ctx, sb, image, pauseUser, host, args...)
}

// restartOrphaned restarts a sandbox that is in an orphaned network namespace.
func (d *Driver) restartOrphaned(ctx context.Context, sb lifecycle.Sandbox) error {
	if sb.Netns == "" || sb.Run != "" { // not orphaned
		return nil
	}
	res, err := d.API.ContainerInspect(ctx, sb.ID, client.ContainerInspectOptions{})
	if err != nil {
		return fmt.Errorf("inspecting the sandbox %s: %w", sb.Name, err)
	}
	owner, err := d.inspectNetworkOwner(ctx, sb)
	gone := errdefs.IsNotFound(err)
	if err != nil && !gone {
		return err
	}
	if owner.State != nil && owner.State.Paused {
		return d.unpause(ctx, owner.ID)
	}
	if !orphaned(res.Container, owner) {
		return nil
	}
	busy, err := d.Busy(ctx, sb)
	if err != nil {
		return err
	}
	if busy {
		return hint.Wrap(fmt.Errorf("the sandbox %s has no network: its pause container was stopped", sb.Name), "stop it with %q", "docker ralph stop --now "+sb.Name)
	}
	if err := d.Stop(ctx, sb); err != nil {
		return err
	}
	if gone {
		return hint.Wrap(fmt.Errorf("the sandbox %s was stopped: its pause container was removed", sb.Name), "run the command again to recreate it")
	}
	if d.Report != nil {
		d.Report(fmt.Sprintf("Restarting the sandbox %s: its pause container was stopped", sb.Name))
	}
	return d.Start(ctx, sb)
}
