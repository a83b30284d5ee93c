package container

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"golang.org/x/sync/errgroup"

	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container/engine"
	"github.com/docker-ralph/docker-ralph/scopes"
	"github.com/docker-ralph/docker-ralph/wire"
)

// Lookup implements [lifecycle.Driver]. The sandbox and its proxy are inspected at the
// same time.
func (d *Driver) Lookup(ctx context.Context, name string) (lifecycle.Sandbox, error) {
	var c, proxy container.InspectResponse
	var found bool
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		if c, found, err = engine.Inspect(groupCtx, d.API, name); err != nil {
			err = fmt.Errorf("inspecting sandbox %s: %w", name, err)
		}
		return err
	})
	group.Go(func() (err error) {
		if proxy, _, err = engine.Inspect(groupCtx, d.API, proxyName(name)); err != nil {
			err = fmt.Errorf("inspecting the proxy of %s: %w", name, err)
		}
		return err
	})
	if err := group.Wait(); err != nil {
		return lifecycle.Sandbox{}, err
	}
	if !found {
		go func() { _, _ = d.info(ctx) }() // Create needs it
		return lifecycle.Sandbox{Name: name, State: lifecycle.NotFound}, nil
	}
	if !isSandbox(c.Config.Labels, name) {
		return lifecycle.Sandbox{}, lifecycle.Foreign(name, "a container")
	}
	own, err := scopes.ClientID(d.StateDir)
	if err != nil {
		return lifecycle.Sandbox{}, err
	}
	sb := fromLabels(c.ID, c.Config.Labels)
	sb.State, sb.ImageID = lifecycle.Unknown, c.Image
	if c.State != nil {
		sb.State = state(c.State.Status)
	}
	if sb.OtherClient = otherClient(c.Config.Labels, own); sb.OtherClient != "" {
		return lifecycle.Sandbox{}, lifecycle.OfOtherClient(sb)
	}
	if c.State != nil {
		sb.Unused = d.unused(sb, c.State.Status)
	}
	if c.HostConfig == nil || c.HostConfig.Tmpfs[wire.SessionDir] == "" {
		sb.Settings = "" // an earlier version created it, without a place for sockets
	}
	sb.Resources = d.requestedLimits(c)
	if sb.Egress != "" {
		sb.Run = runOf(sb, c, proxy)
	}
	if proxy.Config != nil {
		sb.Rules = proxy.Config.Labels[labelRules]
	}
	return sb, nil
}

// unused reports whether no command has run in a sandbox: it was never started, or it is not prepared,
// or its clone has nothing to save since it was filled.
func (d *Driver) unused(sb lifecycle.Sandbox, s container.ContainerState) bool {
	switch {
	case s == container.StateCreated:
		return true
	case sb.Private:
		return gitsync.Saved(d.StateDir, sb.Name)
	}
	m, _ := d.lastMarker(sb.Name)
	return m.ID != sb.ID
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

// List implements [lifecycle.Driver]. Proxies and helpers have no worktree label.
func (d *Driver) List(ctx context.Context) ([]lifecycle.Sandbox, error) {
	res, err := d.API.ContainerList(ctx, client.ContainerListOptions{
		All:     true,
		Filters: make(client.Filters).Add("label", engine.LabelCreatedBy+"="+engine.CreatedBy).Add("label", engine.LabelSandbox).Add("label", labelWorktree),
	})
	if err != nil {
		return nil, fmt.Errorf("listing sandboxes: %w", err)
	}
	own, err := scopes.ClientID(d.StateDir)
	if err != nil {
		return nil, err
	}
	var found []lifecycle.Sandbox
	for _, c := range res.Items {
		for _, name := range c.Names {
			if isSandbox(c.Labels, name) {
				sb := fromLabels(c.ID, c.Labels)
				sb.State, sb.OtherClient = state(c.State), otherClient(c.Labels, own)
				found = append(found, sb)
			}
		}
	}
	return found, nil
}

// Busy implements [lifecycle.Driver]. A sandbox with no process but PID 1 is idle; others are
// looked into, if this version of ralph is there.
func (d *Driver) Busy(ctx context.Context, sb lifecycle.Sandbox) (bool, error) {
	found, err := d.hasProcesses(ctx, sb)
	if err != nil || !found {
		return false, err
	}
	program, ok := d.readMarker(sb)
	if !ok {
		return true, nil
	}
	out, err := engine.Exec(ctx, d.API, sb.ID, sb.User, nil, program.Path(), "_busy")
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case err != nil: // it is too full to tell, or has just ended
		return d.hasProcesses(ctx, sb)
	}
	var answer struct {
		Busy bool `json:"busy"`
	}
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		return false, fmt.Errorf("listing the processes of %s: %w", sb.Name, err)
	}
	return answer.Busy, nil
}

// hasProcesses reports whether there is any process but PID 1, even a zombie.
func (d *Driver) hasProcesses(ctx context.Context, sb lifecycle.Sandbox) (bool, error) {
	res, err := d.API.ContainerTop(ctx, sb.ID, client.ContainerTopOptions{Arguments: []string{"-eo", "pid"}})
	if err == nil {
		return len(res.Processes) > 1, nil
	}
	if errdefs.IsNotFound(err) {
		return false, nil // removed in the meantime
	}
	if info, infoErr := d.info(ctx); infoErr == nil && info.CgroupDriver == "none" {
		return d.hasProcessesInside(ctx, sb)
	}
	return false, fmt.Errorf("listing the processes of %s: %w", sb.Name, err)
}

// hasProcessesInside is hasProcesses for an engine without cgroups, which cannot list the processes of a
// container. They are counted inside, with the shell.
func (d *Driver) hasProcessesInside(ctx context.Context, sb lifecycle.Sandbox) (bool, error) {
	out, err := engine.Exec(ctx, d.API, sb.ID, sb.User, nil, "/bin/sh", "-c", "set -- /proc/[0-9]*; echo $#")
	if errdefs.IsNotFound(err) {
		return false, nil
	}
	var count int
	if err == nil {
		count, err = strconv.Atoi(strings.TrimSpace(out))
	}
	if err != nil {
		return false, fmt.Errorf("counting the processes of %s: %w", sb.Name, err)
	}
	const first, shell = 1, 1
	return count > first+shell, nil
}

// Dispatches implements [lifecycle.Driver].
func (d *Driver) Dispatches(ctx context.Context, sb lifecycle.Sandbox) ([]lifecycle.Dispatch, error) {
	program, ok := d.readMarker(sb)
	if !ok {
		return nil, lifecycle.ErrNotPrepared
	}
	out, err := engine.Exec(ctx, d.API, sb.ID, sb.User, nil, program.Path(), "_dispatches")
	if err != nil {
		return nil, fmt.Errorf("listing the commands in %s: %w", sb.Name, err)
	}
	listed, err := lifecycle.ParseDispatches([]byte(out))
	if err != nil {
		return nil, err
	}
	more, err := d.begun(ctx, sb, listed)
	if err != nil {
		return nil, fmt.Errorf("listing the commands in %s: %w", sb.Name, err)
	}
	return append(listed, more...), nil
}

// ListCommand implements [lifecycle.Driver].
func (d *Driver) ListCommand() string { return "docker ps -a" }
