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
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/guestbin"
)

// wall is what stands around a sandbox.
type wall struct {
	run  string // the time for which it holds
	told string // what its proxy was told; "" if that is not known
}

// raiseWall brings the way out of a running sandbox up, closes all others, and
// tries whether they are closed. Nothing is run in a sandbox before that.
func (d *Driver) raiseWall(ctx context.Context, sb lifecycle.Sandbox, spec lifecycle.Spec) (raised wall, err error) {
	var owner container.InspectResponse
	var image string
	var around surroundings
	group, groupCtx := errgroup.WithContext(ctx)
	// The times come from before: what is restarted meanwhile has another one.
	group.Go(func() (err error) { owner, err = d.networkOwner(groupCtx, sb); return err })
	group.Go(func() (err error) { image, err = d.ensureEgress(groupCtx); return err })
	group.Go(func() (err error) { around, err = d.lookAround(groupCtx); return err })
	if err := group.Wait(); err != nil {
		return wall{}, err
	}
	adopted := false
	group, groupCtx = errgroup.WithContext(ctx)
	there := make(chan struct{})
	if sb.Proxy != "" {
		group.Go(func() (err error) {
			if adopted, err = d.startProxy(groupCtx, sb, owner, spec.Egress, image, around); err != nil {
				return err
			}
			close(there)
			return nil
		})
	}
	group.Go(func() error { return d.tryWall(groupCtx, sb, owner, image, around, there) })
	if err := group.Wait(); err != nil {
		return wall{}, err
	}
	// A firewall that stood already hid it from the canary.
	if other := foreignNetwork(owner); other != "" {
		taken := strings.TrimPrefix(owner.Name, "/")
		return wall{}, fmt.Errorf("the sandbox %s is on the network %s too, past its proxy: take it off with \"docker network disconnect %s %s\"",
			sb.Name, other, other, taken)
	}
	var proxy container.InspectResponse
	if sb.Proxy != "" {
		if proxy, _, err = d.inspectNamed(ctx, proxyName(sb.Name)); err != nil {
			return wall{}, fmt.Errorf("looking the proxy of %s up: %w", sb.Name, err)
		}
	}
	d.engine.mu.Lock()
	delete(d.engine.bare, sb.ID)
	d.engine.mu.Unlock()
	raised.run = runOf(owner, proxy)
	if _, m, _ := d.readWholeMarker(sb); adopted && m.Run == raised.run {
		raised.told = m.Told
	} else if !adopted && sb.Proxy != "" {
		raised.told, err = toldOf(spec.Egress)
	}
	return raised, err
}

// foreignNetwork is a network that somebody else has connected a sandbox to.
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

// runOf names the time for which a network and a proxy have been there, and what
// the network is connected to.
func runOf(owner, proxy container.InspectResponse) string {
	since := func(c container.InspectResponse) string {
		if c.State == nil || !c.State.Running || c.State.Paused {
			return "-"
		}
		return c.State.StartedAt
	}
	return strings.Join(append([]string{since(owner), proxy.ID, since(proxy)}, networksOf(owner)...), " ")
}

// How long to wait for answers that shall not come, behind a firewall and where
// there is the network alone, which must hold by itself then.
const (
	waitFirewall = 250 * time.Millisecond
	waitAlone    = time.Second
)

// question is what the canary is asked about the network of a sandbox.
func question(sb lifecycle.Sandbox, around surroundings) (canary.Question, error) {
	q := canary.Question{Hosts: slices.Clone(around.gateways), Wait: waitAlone, Patience: proxyPatience}
	if sb.Proxy != "" {
		address, err := netip.ParseAddr(sb.Proxy)
		if err != nil {
			return canary.Question{}, err
		}
		q.Proxy = address
		q.Hosts = append(q.Hosts, address.Prev()) // where a gateway would be
	}
	if sb.Netns != "" {
		q.Firewall, q.Wait, q.Near = true, waitFirewall, around.subnets
	}
	return q, nil
}

// tryWall puts the firewall in place where it has an effect, and runs the canary,
// which waits until the proxy is there.
func (d *Driver) tryWall(ctx context.Context, sb lifecycle.Sandbox, owner container.InspectResponse, image string, around surroundings, there <-chan struct{}) error {
	q, err := question(sb, around)
	if err != nil {
		return err
	}
	if sb.Netns != "" {
		q.Await = owner.Config.Image == image
	} else if sb.Proxy == "" {
		return fmt.Errorf("the runtime %s has a network of its own, in which nothing can be closed: use another network policy than %q", owner.HostConfig.Runtime, egress.AllowAll)
	}
	arg, err := q.Encode()
	if err != nil {
		return err
	}
	var out []byte
	if sb.Netns != "" {
		out, err = d.runInNetns(ctx, sb, owner, image, lineWhen(ctx, there), "canary", arg)
	} else {
		// A firewall would have no effect there, and its namespace is empty.
		var host *container.HostConfig
		if host, err = d.besides(ctx, owner); err == nil {
			out, err = d.runEgress(ctx, sb, image, nobody, host, "canary", arg)
		}
	}
	if err != nil {
		return fmt.Errorf("trying the wall around %s: %w", sb.Name, err)
	}
	answer, err := canary.ParseAnswer(out)
	if err == nil {
		err = answer.Err()
	}
	if err != nil {
		return fmt.Errorf("the sandbox %s is not used: %w", sb.Name, err)
	}
	return nil
}

// besides is for a container that is in the network of a sandbox as the sandbox
// itself is.
func (d *Driver) besides(ctx context.Context, agent container.InspectResponse) (*container.HostConfig, error) {
	host, err := d.enclosed(ctx, 64<<20, 128)
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

// closeBare puts the firewall around a sandbox that this program has started
// for something else than a dispatch, so that no command runs without it. It
// may have no proxy then, and reach nothing.
func (d *Driver) closeBare(ctx context.Context, sb lifecycle.Sandbox) error {
	d.engine.mu.Lock()
	bare := d.engine.bare[sb.ID]
	d.engine.mu.Unlock()
	if !bare || sb.Netns == "" { // a network of its own is closed, and a firewall has no effect
		return nil
	}
	now, err := d.Lookup(ctx, sb.Name)
	if err != nil {
		return err
	}
	if _, ok := d.prepared(now); now.ID != sb.ID || !ok {
		if err := d.closeNetns(ctx, sb); err != nil {
			return fmt.Errorf("putting the firewall around %s: %w", sb.Name, err)
		}
	}
	d.engine.mu.Lock()
	delete(d.engine.bare, sb.ID)
	d.engine.mu.Unlock()
	return nil
}

// ownsStack reports whether a runtime may have a network stack of its own, on
// which rules of the kernel have no effect. What is not known may.
func (d *Driver) ownsStack(ctx context.Context, runtime string) bool {
	if runtime == "" {
		if info, err := d.info(ctx); err == nil {
			runtime = info.DefaultRuntime
		}
	}
	return !slices.Contains([]string{"", "runc", "crun", "youki", "nvidia", "io.containerd.runc.v2"}, runtime)
}

// runEgress runs a command of the egress program in a container of its own and
// returns what it wrote. The engine removes the container by itself: it takes its
// time for that, and nobody has to wait.
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
	var out, complaint bytes.Buffer
	if err := demultiplex(&out, &complaint, conn.Reader); err != nil {
		return nil, err
	}
	select {
	case err := <-wait.Error:
		return nil, err
	case res := <-wait.Result:
		ended = true
		if res.StatusCode != 0 {
			said := strings.Join(strings.Fields(complaint.String()), " ")
			return nil, fmt.Errorf("exit code %d: %s", res.StatusCode, strings.TrimPrefix(said, "Error: "))
		}
		return out.Bytes(), nil
	}
}
