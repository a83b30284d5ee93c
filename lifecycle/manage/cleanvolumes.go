package manage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/containerd/errdefs"

	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/commits"
	"github.com/docker-ralph/docker-ralph/lifecycle/container"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/run"
)

// repositoryVolumes are what a repository has on an engine besides its sandboxes.
type repositoryVolumes struct {
	engine host.Engine
	driver *container.Driver
	list   []container.GitVolume // the cache volume's Sandbox is empty
}

// findVolumes finds the volumes of the repository. It keeps, and reports, git
// directories with unfetched commits.
func (c *cleanup) findVolumes(ctx context.Context) error {
	root := c.home.Dir
	if c.home.Inside {
		root = cmp.Or(c.home.Worktree.MainRoot, c.home.Worktree.CommonDir)
	}
	engines, err := c.host.EnginesOf(c.selected, c.connected)
	if err != nil {
		return err
	}
	for _, e := range engines {
		v := repositoryVolumes{engine: e.Engine, driver: c.host.ContainerDriver(e.API)}
		if err := c.addVolumes(ctx, &v, root); err != nil {
			return err
		}
		c.volumes = append(c.volumes, v)
	}
	return nil
}

// addVolumes finds the volumes of the repository on one engine.
func (c *cleanup) addVolumes(ctx context.Context, on *repositoryVolumes, root string) error {
	d := on.driver
	cache := container.CacheVolume(root)
	has, err := d.HasVolume(ctx, cache)
	if _, foreign := errors.AsType[*lifecycle.ForeignError](err); foreign {
		c.host.Warn(err)
		err = nil
	}
	if err != nil {
		return err
	}
	if has {
		on.list = append(on.list, container.GitVolume{Name: cache})
	}
	git, err := d.GitVolumes(ctx, root)
	if err != nil {
		return err
	}
	for _, v := range git {
		if slices.Contains(boxNames(c.selected), v.Sandbox) {
			continue // removed with its sandbox
		}
		if !c.DiscardCommits && !gitsync.Saved(c.host.StateDir, v.Sandbox) {
			c.host.Report(fmt.Sprintf("Warning: keeping the volume %s: it may have the only copy of commits\nHint: %s", v.Name, commits.DiscardHint("--all")))
			continue
		}
		on.list = append(on.list, v)
	}
	return nil
}

// removeVolumes removes those volumes, and orphaned proxies and networks. It keeps
// the caches if sandboxes were kept.
func (c *cleanup) removeVolumes(ctx context.Context, kept bool) (removed []string, err error) {
	var errs []error
	for _, v := range c.volumes {
		some, err := c.removeVolumesOn(ctx, v, kept)
		removed, errs = append(removed, some...), append(errs, err)
	}
	return removed, errors.Join(errs...)
}

func (c *cleanup) removeVolumesOn(ctx context.Context, on repositoryVolumes, kept bool) (removed []string, err error) {
	d, h := on.driver, c.host
	var errs []error
	for _, v := range on.list {
		if v.Sandbox == "" && kept {
			h.Report(fmt.Sprintf("Keeping the cache volume %s: sandboxes still use it", v.Name))
			continue
		}
		err := d.RemoveVolume(ctx, v.Name)
		if err == nil && v.Sandbox != "" {
			err = errors.Join(gitsync.Forget(h.StateDir, v.Sandbox), h.ForgetEngineOn(v.Sandbox, on.engine))
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		removed = append(removed, "volume "+v.Name)
		h.Report("Removed the volume " + v.Name)
	}
	orphans, err := d.SweepOrphans(ctx, run.OrphanGrace)
	if errdefs.IsConflict(err) || errdefs.IsPermissionDenied(err) {
		err = nil // another command is removing them
	}
	for _, name := range orphans {
		removed = append(removed, "leftover "+name)
	}
	return removed, errors.Join(append(errs, err)...)
}
