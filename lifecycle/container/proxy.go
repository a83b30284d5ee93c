package container

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/guestbin"
)

// proxyName is that of the container beside a sandbox. Names of sandboxes have
// no dots.
func proxyName(sandbox string) string { return sandbox + ".egress" }

const (
	proxyMemory = 256 << 20
	// proxyPatience is how long a proxy may take to listen.
	proxyPatience = 30 * time.Second
)

// errMeanwhile says that somebody else, whose lock is elsewhere, is making the
// proxy of the same sandbox at the same time.
var errMeanwhile = errors.New("somebody else is making it at the same time")

// startProxy makes the proxy of a sandbox anew and gives it its policy, unless
// somebody else has just done so. A proxy that is started in any other way gets
// none, and lets nothing through: what it is told can hold keys, so it is
// nowhere but in its memory. It reports whether it was somebody else.
func (d *Driver) startProxy(ctx context.Context, sb lifecycle.Sandbox, owner container.InspectResponse, e lifecycle.Egress, image string, around surroundings) (adopted bool, err error) {
	address, err := netip.ParseAddr(sb.Proxy)
	if err != nil {
		return false, hint.Wrap(fmt.Errorf("the proxy of the sandbox %s is unknown", sb.Name), "recreate the sandbox with --recreate")
	}
	start := startOf(e)
	start.Address, start.Networks, start.Routes = address, around.subnets, e.Routes
	message, err := json.Marshal(start)
	if err != nil {
		return false, err
	}
	for range 10 {
		var id string
		if id, adopted, err = d.makeProxy(ctx, sb, owner, address, e, image, around); err == nil && !adopted {
			err = d.instruct(ctx, id, append(message, '\n'))
		}
		if ambiguous(err) {
			err = errors.Join(err, d.removeContainer(ctx, id)) // nobody may take it for one that is about to start
		} else if !errors.Is(err, errMeanwhile) {
			break
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	if err != nil {
		return false, fmt.Errorf("starting the proxy of %s: %w", sb.Name, err)
	}
	return adopted, nil
}

// current reports whether a proxy was made for the very run of a network, with this
// image, and has not been started again since: then it has its policy, or is
// about to get it from whoever has made it.
func current(c container.InspectResponse, run, image string) bool {
	if c.Config.Labels[labelRun] != run || c.Config.Image != image || c.State == nil || c.State.Paused {
		return false
	}
	if ended, err := time.Parse(time.RFC3339Nano, c.State.FinishedAt); err == nil && !ended.IsZero() {
		return false
	}
	made, err := time.Parse(time.RFC3339Nano, c.Created)
	return c.State.Running || c.State.Status == container.StateCreated && err == nil && time.Since(made) < proxyPatience
}

// makeProxy creates the container of a proxy, or finds a current one.
func (d *Driver) makeProxy(ctx context.Context, sb lifecycle.Sandbox, owner container.InspectResponse, address netip.Addr, e lifecycle.Egress, image string, around surroundings) (id string, adopted bool, err error) {
	run := owner.State.StartedAt + " " + around.digest()
	c, found, err := d.inspectNamed(ctx, proxyName(sb.Name))
	if err != nil {
		return "", false, err
	}
	if found {
		if l := c.Config.Labels; l[labelCreatedBy] != createdBy || l[labelSandbox] != sb.Name {
			return "", false, &lifecycle.ForeignError{Name: proxyName(sb.Name), What: "a container"}
		}
		if current(c, run, image) && !d.leftBehind(sb, owner, c, e) {
			return c.ID, true, nil
		}
		if err := d.removeContainer(ctx, c.ID); err != nil {
			return "", false, err
		}
	}
	l := ownLabels(sb.Name, roleProxy)
	l[labelRun] = run
	host, err := d.enclosed(ctx, proxyMemory, 256)
	if err != nil {
		return "", false, err
	}
	host.NetworkMode = container.NetworkMode(around.egress)
	host.Sysctls = map[string]string{
		"net.ipv4.ip_forward":                 "0", // it is a proxy, not a router
		"net.ipv4.ip_unprivileged_port_start": "0",
	}
	made, err := d.API.ContainerCreate(ctx, client.ContainerCreateOptions{
		Name: proxyName(sb.Name),
		Config: &container.Config{
			Image:       image,
			User:        nobody,
			Hostname:    "egress",
			Entrypoint:  []string{"/" + guestbin.EgressProgram, "proxy"},
			Labels:      l,
			OpenStdin:   true,
			StdinOnce:   true,
			AttachStdin: true,
		},
		HostConfig: host,
	})
	if errdefs.IsConflict(err) {
		return "", false, fmt.Errorf("%w (%w)", errMeanwhile, err)
	}
	if err != nil {
		return "", false, err
	}
	_, err = d.API.NetworkConnect(ctx, owner.Config.Labels[labelNetwork], client.NetworkConnectOptions{
		Container:      made.ID,
		EndpointConfig: &network.EndpointSettings{IPAMConfig: &network.EndpointIPAMConfig{IPv4Address: address}},
	})
	return made.ID, false, err
}

// disarm has the proxy of a sandbox forget all keys, and all that was allowed since
// it was made. One that cannot be told so is removed.
func (d *Driver) disarm(ctx context.Context, sb lifecycle.Sandbox) error {
	if _, err := d.Control(ctx, sb, "reset"); err == nil {
		return nil
	}
	return d.EndProxy(ctx, sb)
}

// EndProxy removes the proxy of a sandbox that does not run, if there is one. The
// next start makes another, which is told the policy of then.
func (d *Driver) EndProxy(ctx context.Context, sb lifecycle.Sandbox) error {
	if err := d.removeOwned(ctx, proxyName(sb.Name), sb.Name); err != nil {
		return fmt.Errorf("ending the proxy of %s: %w", sb.Name, err)
	}
	return nil
}

// removeOwned removes the container of that name, if it belongs to the
// sandbox.
func (d *Driver) removeOwned(ctx context.Context, name, sandbox string) error {
	c, found, err := d.inspectNamed(ctx, name)
	if err != nil || !found {
		return err
	}
	if l := c.Config.Labels; l[labelCreatedBy] != createdBy || l[labelSandbox] != sandbox {
		return &lifecycle.ForeignError{Name: name, What: "a container"}
	}
	return d.removeContainer(ctx, c.ID)
}

// enclosed is what all containers of ours but the sandbox itself run with.
func (d *Driver) enclosed(ctx context.Context, memory, pids int64) (*container.HostConfig, error) {
	info, err := d.info(ctx)
	if err != nil {
		return nil, err
	}
	return &container.HostConfig{
		ReadonlyRootfs: true,
		CapDrop:        []string{"ALL"},
		SecurityOpt:    append([]string{"no-new-privileges"}, ownFilter(info)...),
		IpcMode:        container.IPCModePrivate,
		LogConfig:      boundedLog(),
		Resources:      container.Resources{Memory: memory, MemorySwap: memory, PidsLimit: &pids},
	}, nil
}

// boundedLog keeps what is written readable, whatever the engine's default, and
// from filling the disk.
func boundedLog() container.LogConfig {
	return container.LogConfig{Type: "json-file", Config: map[string]string{"max-size": "10m", "max-file": "2"}}
}

// instruct starts the proxy, hands over the message and waits until it
// listens.
func (d *Driver) instruct(ctx context.Context, id string, message []byte) error {
	ctx, cancel := context.WithTimeoutCause(ctx, proxyPatience, errors.New("it is not ready after "+proxyPatience.String()))
	defer cancel()
	conn, err := d.API.ContainerAttach(ctx, id, client.ContainerAttachOptions{Stream: true, Stdin: true, Stdout: true, Stderr: true})
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, conn.Close)()
	if _, err := d.API.ContainerStart(ctx, id, client.ContainerStartOptions{}); err != nil {
		return err
	}
	if _, err := conn.Conn.Write(message); err != nil {
		return err
	}
	if err := awaitReady(conn.Reader); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	return nil
}

// awaitReady reads until the proxy says that it listens.
func awaitReady(r io.Reader) error {
	output, lines := io.Pipe()
	var complaint bytes.Buffer
	go func() { _ = lines.CloseWithError(demultiplex(lines, &complaint, r)) }()
	defer func() { _ = output.Close() }()
	scanner := bufio.NewScanner(output)
	for scanner.Scan() {
		var line egress.Ready
		if json.Unmarshal(scanner.Bytes(), &line) == nil && line.Ready {
			return nil
		}
	}
	// The pipe has ended, and with it the copying.
	if said := strings.Join(strings.Fields(complaint.String()), " "); said != "" {
		return errors.New(strings.TrimPrefix(said, "Error: "))
	}
	return errors.Join(errors.New("it has ended without a word"), scanner.Err())
}
