package container

import (
	"context"
	"fmt"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// Lookup implements [lifecycle.Driver] with one inspection.
func (d *Driver) Lookup(ctx context.Context, name string) (lifecycle.Sandbox, error) {
	res, err := d.API.ContainerInspect(ctx, name, client.ContainerInspectOptions{})
	if errdefs.IsNotFound(err) {
		return lifecycle.Sandbox{Name: name, State: lifecycle.NotFound}, nil
	}
	if err != nil {
		return lifecycle.Sandbox{}, fmt.Errorf("looking the sandbox %s up: %w", name, err)
	}
	c := res.Container
	if c.Name != "/"+name {
		// The engine also finds containers by the beginning of their ID.
		return lifecycle.Sandbox{Name: name, State: lifecycle.NotFound}, nil
	}
	if c.Config == nil || !isSandbox(c.Config.Labels, name) {
		return lifecycle.Sandbox{}, &lifecycle.ForeignError{Name: name, What: "a container"}
	}
	sb := fromLabels(c.ID, c.Config.Labels)
	sb.State = lifecycle.Unknown
	if c.State != nil {
		sb.State = state(c.State.Status)
	}
	return sb, nil
}

func state(s container.ContainerState) lifecycle.State {
	switch s {
	case container.StateRunning:
		return lifecycle.Running
	case container.StateCreated, container.StateExited:
		return lifecycle.Stopped
	case container.StatePaused:
		return lifecycle.Paused
	case container.StateRestarting:
		return lifecycle.Restarting
	case container.StateDead:
		return lifecycle.Dead
	case container.StateRemoving:
		return lifecycle.Removing
	default:
		return lifecycle.Unknown
	}
}

// List implements [lifecycle.Driver].
func (d *Driver) List(ctx context.Context) ([]lifecycle.Sandbox, error) {
	res, err := d.API.ContainerList(ctx, client.ContainerListOptions{
		All:     true,
		Filters: make(client.Filters).Add("label", labelCreatedBy+"="+createdBy).Add("label", labelSandbox),
	})
	if err != nil {
		return nil, fmt.Errorf("listing sandboxes: %w", err)
	}
	var found []lifecycle.Sandbox
	for _, c := range res.Items {
		for _, name := range c.Names {
			if isSandbox(c.Labels, name) {
				sb := fromLabels(c.ID, c.Labels)
				sb.State = state(c.State)
				found = append(found, sb)
			}
		}
	}
	return found, nil
}

// Busy implements [lifecycle.Driver]: a sandbox at rest has its first process
// and nothing else.
func (d *Driver) Busy(ctx context.Context, sb lifecycle.Sandbox) (bool, error) {
	res, err := d.API.ContainerTop(ctx, sb.ID, client.ContainerTopOptions{Arguments: []string{"-eo", "pid"}})
	if err != nil {
		return false, fmt.Errorf("listing the processes of %s: %w", sb.Name, err)
	}
	return len(res.Processes) > 1, nil
}

// Dispatches implements [lifecycle.Driver].
func (d *Driver) Dispatches(ctx context.Context, sb lifecycle.Sandbox) ([]lifecycle.Dispatch, error) {
	program, ok := d.readMarker(sb)
	if !ok {
		return nil, lifecycle.ErrNotPrepared
	}
	out, err := d.run(ctx, sb, sb.User, program.Path(), "_dispatches")
	if err != nil {
		return nil, fmt.Errorf("asking what runs in %s: %w", sb.Name, err)
	}
	return lifecycle.ParseDispatches([]byte(out))
}

// Manual implements [lifecycle.Driver].
func (d *Driver) Manual(name string) lifecycle.Manual {
	return lifecycle.Manual{List: "docker ps -a", Stop: "docker stop " + name, Remove: "docker rm -fv " + name}
}
