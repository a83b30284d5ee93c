package container

import (
	"context"
	"fmt"
	"io"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container/engine"
)

// Part is a container of a sandbox: the sandbox or its proxy.
type Part struct {
	// What describes the container in messages.
	What string
	// Name is the name of the container.
	Name string
	// Ended describes how it has exited; empty while it runs, and if it was never
	// started.
	Ended string
	// Gone means that the container does not exist any more.
	Gone bool

	id, since string
}

// Parts returns the containers of a sandbox and their states.
func (d *Driver) Parts(ctx context.Context, sb lifecycle.Sandbox) ([]Part, error) {
	res, err := d.API.ContainerInspect(ctx, sb.ID, client.ContainerInspectOptions{})
	gone := errdefs.IsNotFound(err)
	if err != nil && !gone {
		return nil, fmt.Errorf("inspecting sandbox %s: %w", sb.Name, err)
	}
	parts := []Part{newPart("sandbox", sb.Name, res.Container, !gone)}
	if gone || sb.Proxy == "" {
		return parts, nil // the proxy goes with its sandbox
	}
	name := proxyName(sb.Name)
	c, found, err := engine.Inspect(ctx, d.API, name)
	if err != nil {
		return nil, fmt.Errorf("inspecting the proxy of %s: %w", sb.Name, err)
	}
	return append(parts, newPart("proxy", name, c, found)), nil
}

func newPart(what, name string, c container.InspectResponse, found bool) Part {
	p := Part{What: what, Name: name, Gone: !found, id: c.ID}
	if !found || c.State == nil {
		return p
	}
	switch s := *c.State; s.Status {
	case container.StateRemoving, container.StateDead:
		p.Gone = true // its log cannot be read
	case container.StateCreated:
	default:
		if p.since = s.StartedAt; !s.Running {
			p.Ended = exitReason(s)
		}
	}
	return p
}

// Log writes the log of a part: all of it, or the lines since its last start. Each line
// begins with its time.
func (d *Driver) Log(ctx context.Context, p Part, latest bool, w io.Writer) error {
	opts := client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Timestamps: true}
	if latest {
		opts.Since = p.since
	}
	res, err := d.API.ContainerLogs(ctx, p.id, opts)
	if err != nil {
		return fmt.Errorf("reading the log of %s: %w", p.Name, err)
	}
	defer func() { _ = res.Close() }()
	if err := engine.Demultiplex(w, w, res); err != nil {
		return fmt.Errorf("reading the log of %s: %w", p.Name, err)
	}
	return nil
}
