package container

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/client"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container/engine"
)

// SweepOrphans removes proxies with their sockets, helpers and networks of sandboxes that
// do not exist, and names them. What is younger than grace may belong to a sandbox that is
// being created. Nothing of a user's is in them.
func (d *Driver) SweepOrphans(ctx context.Context, grace time.Duration) (removed []string, err error) {
	all, err := d.List(ctx)
	if err != nil {
		return nil, err
	}
	alive := func(name string) bool {
		return slices.ContainsFunc(all, func(sb lifecycle.Sandbox) bool { return sb.Name == name })
	}
	ours := make(client.Filters).Add("label", engine.LabelCreatedBy+"="+engine.CreatedBy).Add("label", engine.LabelSandbox).Add("label", engine.LabelRole)
	before := time.Now().Add(-grace)
	containers, err := d.API.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: ours})
	if err != nil {
		return nil, fmt.Errorf("listing leftovers of sandboxes: %w", err)
	}
	var errs []error
	inUse := map[string]bool{}
	for _, c := range containers.Items {
		if role := c.Labels[engine.LabelRole]; role != roleProxy && role != engine.RoleHelper && role != roleNetns || alive(c.Labels[engine.LabelSandbox]) {
			continue
		}
		if time.Unix(c.Created, 0).After(before) {
			inUse[c.Labels[engine.LabelSandbox]] = true
			continue
		}
		errs = append(errs, engine.RemoveContainer(ctx, d.API, c.ID))
		removed = append(removed, strings.TrimPrefix(strings.Join(c.Names, " "), "/"))
	}
	networks, err := d.API.NetworkList(ctx, client.NetworkListOptions{Filters: ours})
	if err != nil {
		return removed, errors.Join(append(errs, fmt.Errorf("listing leftovers of sandboxes: %w", err))...)
	}
	for _, n := range networks.Items {
		if name := n.Labels[engine.LabelSandbox]; n.Labels[engine.LabelRole] == roleNetwork && !alive(name) && !inUse[name] && n.Created.Before(before) {
			errs = append(errs, d.removeNetwork(ctx, n.ID))
			removed = append(removed, n.Name)
		}
	}
	volumes, err := d.API.VolumeList(ctx, client.VolumeListOptions{Filters: ours.Clone().Add("label", engine.LabelRole+"="+roleSockets)})
	if err != nil {
		return removed, errors.Join(append(errs, fmt.Errorf("listing what sandboxes have left: %w", err))...)
	}
	for _, v := range volumes.Items {
		created, err := time.Parse(time.RFC3339, v.CreatedAt)
		if name := v.Labels[engine.LabelSandbox]; err == nil && !alive(name) && !inUse[name] && created.Before(before) {
			errs = append(errs, d.RemoveVolume(ctx, v.Name))
			removed = append(removed, v.Name)
		}
	}
	return removed, errors.Join(errs...)
}
