package container

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container/engine"
	"github.com/docker-ralph/docker-ralph/lifecycle/guestbin"
	"github.com/docker-ralph/docker-ralph/wire"
)

// proxyName returns the name of a sandbox's proxy container. Names of sandboxes have
// no dots.
func proxyName(sandbox string) string { return sandbox + ".egress" }

const (
	proxyMemory = 256 << 20
	// proxyTimeout bounds the start of a proxy.
	proxyTimeout = 30 * time.Second
)

// errConcurrent means that another process is creating the same proxy.
var errConcurrent = errors.New("another process is creating it")

// startProxy recreates the proxy of a sandbox and passes its policy, unless another
// process has just done so, which it reports. The configuration can contain keys and is
// only in the proxy's memory: a proxy that is started in any other way has no policy and
// blocks everything.
func (d *Driver) startProxy(ctx context.Context, sb lifecycle.Sandbox, agent container.InspectResponse, e lifecycle.Egress, image string, engineNets engineNetworks) (reused bool, err error) {
	address, err := netip.ParseAddr(sb.Proxy)
	if err != nil {
		return false, hint.Wrap(fmt.Errorf("the proxy of sandbox %s is unknown", sb.Name), "recreate the sandbox with --recreate")
	}
	start := proxyStart(e)
	start.Address, start.Networks, start.Routes = address, engineNets.subnets, e.Routes
	if hasNoNetwork(sb) {
		start.Sockets = wire.ProxyDir
	}
	message, err := json.Marshal(start)
	if err != nil {
		return false, err
	}
	for range 10 {
		var id string
		if id, reused, err = d.createProxy(ctx, sb, agent, address, e, image, engineNets); err == nil && !reused {
			err = d.configureProxy(ctx, id, append(message, '\n'))
		}
		if ambiguous(err) {
			err = errors.Join(err, engine.RemoveContainer(ctx, d.API, id)) // or it looks like one that is about to start
		} else if !errors.Is(err, errConcurrent) {
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
	return reused, nil
}

// isCurrent reports whether a proxy was created for these networks of the engine, and has
// not been restarted since: then it has its policy, or another command is about to send it.
func isCurrent(c container.InspectResponse, run string) bool {
	if c.Config.Labels[labelRun] != run || c.State == nil || c.State.Paused {
		return false
	}
	if ended, err := time.Parse(time.RFC3339Nano, c.State.FinishedAt); err == nil && !ended.IsZero() {
		return false
	}
	return c.State.Running || c.State.Status == container.StateCreated && time.Since(creation(c)) < proxyTimeout
}

// createProxy creates the container of a proxy, or reuses a current one. That of another
// version stays while a command runs in the sandbox: with it, the command would lose its
// connections and keys.
func (d *Driver) createProxy(ctx context.Context, sb lifecycle.Sandbox, agent container.InspectResponse, address netip.Addr, e lifecycle.Egress, image string, engineNets engineNetworks) (id string, reused bool, err error) {
	run := engineNets.digest()
	c, found, err := engine.Inspect(ctx, d.API, proxyName(sb.Name))
	if err != nil {
		return "", false, err
	}
	if found {
		if err := d.checkProxy(c, sb.Name); err != nil {
			return "", false, err
		}
		reused = isCurrent(c, run) && !d.staleProxy(sb, agent, c, e)
		if reused && c.Config.Image != image { // of another version of docker-ralph
			if reused, err = d.Busy(ctx, sb); err != nil {
				return "", false, err
			}
		}
		if reused {
			return c.ID, true, nil
		}
		if err := engine.RemoveContainer(ctx, d.API, c.ID); err != nil {
			return "", false, err
		}
	}
	l := engine.PartLabels(sb.Name, sb.Client, roleProxy)
	l[labelRun], l[labelRules] = run, e.Rules()
	host, err := d.helperHostConfig(ctx, proxyMemory, 256)
	if err != nil {
		return "", false, err
	}
	host.NetworkMode = container.NetworkMode(engineNets.egress)
	host.Sysctls = map[string]string{
		"net.ipv4.ip_forward":                 "0", // a proxy, not a router
		"net.ipv4.ip_unprivileged_port_start": "0",
	}
	if hasNoNetwork(sb) {
		host.Mounts = []mount.Mount{socketsMount(sb.Name, sb.Client, false)}
	}
	made, err := d.API.ContainerCreate(ctx, client.ContainerCreateOptions{
		Name: proxyName(sb.Name),
		Config: &container.Config{
			Image:       image,
			User:        initUser,
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
		return "", false, fmt.Errorf("%w (%w)", errConcurrent, err)
	}
	if err != nil || hasNoNetwork(sb) {
		return made.ID, false, err
	}
	_, err = d.API.NetworkConnect(ctx, agent.Config.Labels[labelNetwork], client.NetworkConnectOptions{
		Container:      made.ID,
		EndpointConfig: &network.EndpointSettings{IPAMConfig: &network.EndpointIPAMConfig{IPv4Address: address}},
	})
	return made.ID, false, err
}

// resetProxy makes the proxy of a sandbox drop all keys and later rules. If that fails,
// the proxy is removed.
func (d *Driver) resetProxy(ctx context.Context, sb lifecycle.Sandbox) error {
	if _, err := d.Control(ctx, sb, "reset"); err == nil {
		return nil
	}
	return d.RemoveProxy(ctx, sb)
}

// RemoveProxy removes the proxy of a stopped sandbox, if there is one. The next start
// creates a new one.
func (d *Driver) RemoveProxy(ctx context.Context, sb lifecycle.Sandbox) error {
	c, found, err := engine.Inspect(ctx, d.API, proxyName(sb.Name))
	if err == nil && found {
		err = d.checkProxy(c, sb.Name)
	}
	if err == nil && found {
		err = engine.RemoveContainer(ctx, d.API, c.ID)
	}
	if err != nil {
		return fmt.Errorf("removing the proxy of %s: %w", sb.Name, err)
	}
	return nil
}

// checkProxy returns an error if a container is not the proxy of a sandbox of this client.
func (d *Driver) checkProxy(c container.InspectResponse, sandbox string) error {
	l := c.Config.Labels
	if l[engine.LabelCreatedBy] != engine.CreatedBy || l[engine.LabelSandbox] != sandbox {
		return lifecycle.Foreign(proxyName(sandbox), "a container")
	}
	return d.checkClient(l, "container", proxyName(sandbox))
}

// proxyStart is the configuration of a new proxy, without what is only known then.
func proxyStart(e lifecycle.Egress) egress.Start {
	policy := e.Policy
	if e.Amended.Mode != "" {
		policy = e.Amended
	}
	start := egress.Start{Policy: policy, Upstream: e.Upstream}
	if e.CA != nil {
		start.CA = e.CA()
	}
	return start
}

// proxyConfigHash identifies the configuration of a proxy, which can change until the
// next run of its sandbox. The hash is of text that can have a password in it, so it is
// only where the user can read it.
func proxyConfigHash(e lifecycle.Egress) (string, error) {
	b, err := json.Marshal(proxyStart(e))
	if err != nil {
		return "", fmt.Errorf("encoding the configuration of the proxy: %w", err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

// proxyUpToDate reports whether a proxy with that configuration may stay. While its sandbox
// runs it does, because commands that run rely on it.
func (d *Driver) proxyUpToDate(sb lifecycle.Sandbox, hash string, e lifecycle.Egress) bool {
	if sb.Proxy == "" || !d.startedByUs(sb) {
		return true
	}
	now, err := proxyConfigHash(e)
	return err == nil && now == hash
}

// startedByUs reports whether this process has started a sandbox.
func (d *Driver) startedByUs(sb lifecycle.Sandbox) bool {
	d.cached.mu.Lock()
	defer d.cached.mu.Unlock()
	return d.cached.started[sb.ID]
}

// staleProxy reports whether a proxy is from an earlier run of the sandbox, and has
// another configuration than the spec.
func (d *Driver) staleProxy(sb lifecycle.Sandbox, agent, proxy container.InspectResponse, e lifecycle.Egress) bool {
	_, m, _ := d.readFullMarker(sb)
	if m.ProxyConfig == "" && time.Since(creation(proxy)) < proxyTimeout {
		return false // another command is creating it
	}
	return m.Run != "" && m.Run == runOf(sb, agent, proxy) && !d.proxyUpToDate(sb, m.ProxyConfig, e)
}

// helperHostConfig returns the configuration of all containers except sandboxes.
func (d *Driver) helperHostConfig(ctx context.Context, memory, pids int64) (*container.HostConfig, error) {
	info, err := d.info(ctx)
	if err != nil {
		return nil, err
	}
	return &container.HostConfig{
		ReadonlyRootfs: true,
		CapDrop:        []string{"ALL"},
		SecurityOpt:    slices.Concat([]string{"no-new-privileges"}, helperSeccompOpt(info), labelOpt(info)),
		IpcMode:        container.IPCModePrivate,
		LogConfig:      engine.BoundedLog(),
		Resources:      container.Resources{Memory: memory, MemorySwap: memory, PidsLimit: &pids},
	}, nil
}

// configureProxy starts the proxy, sends its configuration and waits until it listens.
func (d *Driver) configureProxy(ctx context.Context, id string, message []byte) error {
	ctx, cancel := context.WithTimeoutCause(ctx, proxyTimeout, errors.New("not ready after "+proxyTimeout.String()))
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

// awaitReady reads until the proxy reports that it listens.
func awaitReady(r io.Reader) error {
	output, lines := io.Pipe()
	var errOutput bytes.Buffer
	go func() { _ = lines.CloseWithError(engine.Demultiplex(lines, &errOutput, r)) }()
	defer func() { _ = output.Close() }()
	scanner := bufio.NewScanner(output)
	for scanner.Scan() {
		var line egress.Ready
		if json.Unmarshal(scanner.Bytes(), &line) == nil && line.Ready {
			return nil
		}
	}
	// EOF: the copying goroutine has ended.
	if said := strings.Join(strings.Fields(errOutput.String()), " "); said != "" {
		return errors.New(strings.TrimPrefix(said, "Error: "))
	}
	return errors.Join(errors.New("proxy has exited"), scanner.Err())
}
