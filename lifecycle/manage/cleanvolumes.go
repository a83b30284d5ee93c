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
	"github.com/docker-ralph/docker-ralph/lifecycle/run"
)

// repositoryVolumes are what a repository has on the engine besides its sandboxes.
type repositoryVolumes struct {
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
	api, err := c.connected()
	if err != nil {
		return err
	}
	d := c.host.ContainerDriver(api)
	c.volumes.driver = d
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
		c.volumes.list = append(c.volumes.list, container.GitVolume{Name: cache})
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
		c.volumes.list = append(c.volumes.list, v)
	}
	return nil
}

// removeVolumes removes those volumes, and orphaned proxies and networks. It keeps
// the caches if sandboxes were kept.
func (c *cleanup) removeVolumes(ctx context.Context, kept bool) (removed []string, err error) {
	d, h := c.volumes.driver, c.host
	var errs []error
	for _, v := range c.volumes.list {
		if v.Sandbox == "" && kept {
			h.Report(fmt.Sprintf("Keeping the cache volume %s: sandboxes still use it", v.Name))
			continue
		}
		err := d.RemoveVolume(ctx, v.Name)
		if err == nil && v.Sandbox != "" {
			err = gitsync.Forget(h.StateDir, v.Sandbox)
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
