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

// Every sandbox with a wall uses the network namespace of a container that does
// nothing else, as the containers of a pod do. The wall stands in there: it is
// raised once, and not again whenever the sandbox is started. The holder has no
// network but the sandbox's either, and runs nothing of the agent's, so rules are
// put in place by commands beside it, with a right that no process of the sandbox
// has.

const (
	netnsMemory = 64 << 20
	netnsPids   = 128
	// netnsUser is root because no other user can be given a capability.
	netnsUser = "0:0"
)

// makeHeldNetwork makes the network of a sandbox and starts what holds it, unless the
// sandbox's runtime has a network of its own. The holder is created meanwhile, for the
// addresses that are tried first. What there is if it fails is returned as well.
func (d *Driver) makeHeldNetwork(ctx context.Context, spec lifecycle.Spec) (n sandboxNetwork, holder string, err error) {
	name := newNetworkName(spec.Name)
	if d.ownsStack(ctx, spec.Runtime) {
		n, err = d.makeNetwork(ctx, spec, name)
		return n, "", err
	}
	expected, _ := networkAt(firstIndex(name), name)
	var group errgroup.Group
	group.Go(func() (err error) { n, err = d.makeNetwork(ctx, spec, name); return err })
	group.Go(func() (err error) { holder, err = d.makeNetns(ctx, spec, expected); return err })
	if err := group.Wait(); err != nil {
		return n, holder, err
	}
	if n != expected {
		if err := d.removeContainer(ctx, holder); err != nil {
			return n, holder, err
		}
		if holder, err = d.makeNetns(ctx, spec, n); err != nil {
			return n, holder, err
		}
	}
	if _, err := d.API.ContainerStart(ctx, holder, client.ContainerStartOptions{}); err != nil {
		return n, holder, fmt.Errorf("starting what holds the network of %s: %w", spec.Name, err)
	}
	return n, holder, nil
}

// makeNetns creates the container that holds the network of a sandbox, which may not
// be there yet. It has the network's name, so that nobody else makes another of that
// name.
func (d *Driver) makeNetns(ctx context.Context, spec lifecycle.Spec, n sandboxNetwork) (id string, err error) {
	image, err := d.ensureEgress(ctx)
	if err != nil {
		return "", err
	}
	host, err := d.enclosed(ctx, netnsMemory, netnsPids)
	if err != nil {
		return "", err
	}
	host.Runtime = spec.Runtime
	host.CapAdd = []string{"NET_ADMIN"} // which the holder gives up, and what is run beside it has
	networking := enter(spec, n, host)
	own := ownLabels(spec.Name, roleNetns)
	own[labelNetwork] = n.name
	made, err := d.API.ContainerCreate(ctx, client.ContainerCreateOptions{
		Name: n.name,
		Config: &container.Config{
			Image:      image,
			User:       netnsUser,
			Hostname:   hostname,
			Entrypoint: []string{"/" + guestbin.EgressProgram, "hold"},
			Labels:     own,
		},
		HostConfig:       host,
		NetworkingConfig: networking,
	})
	if err != nil {
		return "", fmt.Errorf("making what holds the network of %s: %w", spec.Name, err)
	}
	return made.ID, nil
}

// lineWhen is an input with one line, as soon as a channel is closed.
func lineWhen(ctx context.Context, there <-chan struct{}) io.Reader {
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

// networkOwner is the container that the network of a sandbox belongs to.
func (d *Driver) networkOwner(ctx context.Context, sb lifecycle.Sandbox) (container.InspectResponse, error) {
	id := sb.Netns
	if id == "" {
		id = sb.ID
	}
	res, err := d.API.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if err != nil {
		return container.InspectResponse{}, fmt.Errorf("looking the network of %s up: %w", sb.Name, err)
	}
	return res.Container, nil
}

// stranded reports whether a running sandbox uses a namespace that its holder has
// left: it was restarted, or has ended, and took the way out with it.
func stranded(agent, owner container.InspectResponse) bool {
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

// closeNetns puts the firewall in place, and nothing else.
func (d *Driver) closeNetns(ctx context.Context, sb lifecycle.Sandbox) error {
	owner, err := d.networkOwner(ctx, sb)
	if err != nil {
		return err
	}
	image, err := d.ensureEgress(ctx)
	if err != nil {
		return err
	}
	rules := []string{"firewall", "-proxy", sb.Proxy}
	if sb.Proxy == "" {
		around, err := d.lookAround(ctx)
		if err != nil {
			return err
		}
		rules = []string{"firewall", "-open"}
		for _, near := range around.subnets {
			rules = append(rules, "-near", near.String())
		}
	}
	_, err = d.runInNetns(ctx, sb, owner, image, nil, rules...)
	return err
}

// runInNetns runs a command of the egress program where rules can be put in
// place: beside the holder, or in a container of its own if the holder has the
// program of another version. Only the former gets input.
func (d *Driver) runInNetns(ctx context.Context, sb lifecycle.Sandbox, owner container.InspectResponse, image string, stdin io.Reader, args ...string) ([]byte, error) {
	if owner.Config.Image == image {
		out, err := d.runWith(ctx, owner.ID, netnsUser, stdin, append([]string{"/" + guestbin.EgressProgram}, args...)...)
		return []byte(out), err
	}
	host, err := d.enclosed(ctx, netnsMemory, netnsPids)
	if err != nil {
		return nil, err
	}
	host.Runtime = owner.HostConfig.Runtime
	host.CapAdd = owner.HostConfig.CapAdd
	host.NetworkMode = container.NetworkMode("container:" + owner.ID)
	return d.runEgress(ctx, sb, image, netnsUser, host, args...)
}

// regain starts a sandbox again that uses a namespace which its holder has left.
func (d *Driver) regain(ctx context.Context, sb lifecycle.Sandbox) error {
	if sb.Netns == "" || sb.Run != "" { // it was looked up, and is at home
		return nil
	}
	res, err := d.API.ContainerInspect(ctx, sb.ID, client.ContainerInspectOptions{})
	if err != nil {
		return fmt.Errorf("looking the sandbox %s up: %w", sb.Name, err)
	}
	owner, err := d.networkOwner(ctx, sb)
	gone := errdefs.IsNotFound(err)
	if err != nil && !gone {
		return err
	}
	if owner.State != nil && owner.State.Paused {
		return d.unpause(ctx, owner.ID)
	}
	if !stranded(res.Container, owner) {
		return nil
	}
	busy, err := d.Busy(ctx, sb)
	if err != nil {
		return err
	}
	if busy {
		return fmt.Errorf("what held the network of the sandbox %s was stopped, and what runs in it has none any more: end that with \"docker ralph stop --now %s\"", sb.Name, sb.Name)
	}
	if err := d.Stop(ctx, sb); err != nil {
		return err
	}
	if gone {
		return hint.Wrap(fmt.Errorf("the sandbox %s was stopped: its pause container was removed", sb.Name), "run the command again to recreate it")
	}
	if d.Report != nil {
		d.Report(fmt.Sprintf("Starting the sandbox %s again: what held its network was stopped", sb.Name))
	}
	return d.Start(ctx, sb)
}
