package disk

import (
	"context"
	"errors"
	"slices"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/images"
	"github.com/docker-ralph/docker-ralph/lifecycle/run"
	"github.com/docker-ralph/docker-ralph/projectimage"
)

// addResources adds the proxies, networks and volumes.
func (inv *inventory) addResources(ctx context.Context) error {
	var sandboxes []lifecycle.Sandbox
	for _, l := range inv.located {
		if l.Backend.Kind != config.DriverContainer || l.Backend.Engine.Same(inv.host.Selected) {
			sandboxes = append(sandboxes, l.Sandbox)
		}
	}
	all, err := inv.driver.Resources(ctx, sandboxes, run.OrphanGrace)
	if err != nil {
		return err
	}
	for _, r := range all {
		inv.items = append(inv.items, inv.resourceItem(r))
	}
	return nil
}

func (inv *inventory) resourceItem(r container.Resource) Item {
	item := Item{
		Type: map[container.ResourceKind]Type{container.KindProxy: Proxies, container.KindNetwork: Networks, container.KindVolume: Volumes}[r.Kind],
		Name: r.Name, Kind: r.Role, Repository: r.Repo, Path: r.Root, Size: r.Size, Active: r.InUse,
	}
	if item.setOther(r.OtherClient); r.OtherClient != "" {
		return item
	}
	if box := inv.sandboxItem(r.Sandbox); box != nil {
		item.sandbox, item.Repository, item.Path = box.Name, box.Repository, box.Path
		item.Reclaimable, item.Reason = box.Reclaimable, box.Reason
		if box.Size != nil && r.Size != nil && (r.Role == container.RoleGit || r.Role == container.RoleClone) {
			*box.Size -= *r.Size // counted here
		}
		return item
	}
	if owner, known := inv.owners[r.Sandbox]; known {
		item.Repository, item.Path = owner.Scope.Repo, owner.Root
	}
	switch {
	case r.Orphan && r.Kind == container.KindProxy && r.Sandbox == "":
		item.Reclaimable, item.Reason, item.orphan = true, "left by a command that was killed", true
	case r.Orphan:
		item.Reclaimable, item.Reason, item.orphan = true, "sandbox "+r.Sandbox+" does not exist", true
	case r.Role == container.RoleCache:
		if inv.gone(r.Root) {
			item.Reclaimable, item.Reason = true, doesNotExist(r.Root)
			item.remove = func(ctx context.Context) error { return inv.driver.RemoveVolume(ctx, r.Name) }
		}
	case (r.Role == container.RoleGit || r.Role == container.RoleClone) && inv.gone(r.Worktree):
		item.Path = r.Worktree
		if !inv.discard && !gitsync.Saved(inv.host.StateDir, r.Sandbox) {
			item.Reason = onlyCopy
			break
		}
		item.Reclaimable, item.Reason = true, doesNotExist(r.Worktree)
		item.remove = func(ctx context.Context) error {
			return errors.Join(inv.driver.RemoveGit(ctx, r.Sandbox), inv.host.ForgetEngineOn(r.Sandbox, inv.host.Selected))
		}
	}
	return item
}

// addImages adds the agent and project images. The size of one that is built on another is
// what it adds to that.
func (inv *inventory) addImages(api host.API) func(context.Context) error {
	return func(ctx context.Context) error {
		all, err := images.Stored(ctx, inv.host, inv.host.Builder(api))
		if err != nil {
			return err
		}
		sizes := map[string]int64{}
		for _, image := range all {
			sizes[image.ID] = image.Size
		}
		unused := projectimage.Unused(all, nil)
		for _, image := range all {
			size := image.Size - sizes[image.BaseID]
			item := Item{Type: Images, Name: image.Name(), Kind: image.Kind, Size: &size, Active: len(image.UsedBy) > 0, image: &image}
			if slices.ContainsFunc(unused, func(u projectimage.Stored) bool { return u.ID == image.ID }) {
				item.Reclaimable, item.Reason, item.optional = true, "no sandbox uses it", true
				if len(image.Tags) == 0 {
					item.Reason, item.optional = "another image has its tag", false
				}
			}
			inv.items = append(inv.items, item)
		}
		return nil
	}
}

// addPrograms adds the images of ralph and ralph-egress.
func (inv *inventory) addPrograms(ctx context.Context) error {
	all, err := inv.driver.Programs(ctx)
	for _, p := range all {
		item := Item{Type: Images, Name: p.Tag, Kind: "helper", Size: &p.Size, Active: p.Current}
		if !p.Current {
			item.Reclaimable, item.Reason = true, "it belongs to another version of docker-ralph"
			item.remove = func(ctx context.Context) error { return inv.driver.RemoveProgram(ctx, p.Tag) }
		}
		inv.items = append(inv.items, item)
	}
	return err
}
