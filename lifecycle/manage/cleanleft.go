package manage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/docker-ralph/docker-ralph/lifecycle/commits"
	"github.com/docker-ralph/docker-ralph/lifecycle/run"

	"github.com/containerd/errdefs"

	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container"
)

// leftovers are what a repository has on the engine besides its sandboxes.
type leftovers struct {
	driver  *container.Driver // nil if there is no engine, and so nothing
	volumes []leftVolume
}

type leftVolume struct {
	name string
	// sandbox is the one whose git directory is in it; empty for the caches.
	sandbox string
}

// findLeftovers looks for volumes of the repository. A git directory with commits
// that are nowhere else is kept, and named.
func (c *cleaning) findLeftovers(ctx context.Context) error {
	root := c.home.Dir
	if c.home.Inside {
		root = cmp.Or(c.home.Worktree.MainRoot, c.home.Worktree.CommonDir)
	}
	api, err := c.connected()
	if err != nil {
		return err
	}
	d := c.host.ContainerDriver(api)
	c.extra.driver = d
	cache := container.CacheVolume(root)
	has, err := d.HasVolume(ctx, cache)
	if _, foreign := errors.AsType[*lifecycle.ForeignError](err); foreign {
		c.host.Report(fmt.Sprintf("Warning: %v", err))
		err = nil
	}
	if err != nil {
		return err
	}
	if has {
		c.extra.volumes = append(c.extra.volumes, leftVolume{name: cache})
	}
	git, err := d.GitVolumes(ctx, root)
	if err != nil {
		return err
	}
	for _, v := range git {
		if slices.Contains(boxNames(c.mine), v.Sandbox) {
			continue // it goes with its sandbox
		}
		if !c.DiscardCommits && !gitsync.Saved(c.host.StateDir, v.Sandbox) {
			c.host.Report(fmt.Sprintf("Warning: the volume %s is kept, as it may have the only copy of commits: the next sandbox of its branch has it again\nHint: %s", v.Name, commits.DiscardHint("--all")))
			continue
		}
		c.extra.volumes = append(c.extra.volumes, leftVolume{v.Name, v.Sandbox})
	}
	return nil
}

// removeLeftovers removes those volumes, and the proxies and networks of sandboxes
// that are gone. The caches are kept while a sandbox is.
func (c *cleaning) removeLeftovers(ctx context.Context, kept bool) (removed []string, err error) {
	d, h := c.extra.driver, c.host
	var errs []error
	for _, v := range c.extra.volumes {
		if v.sandbox == "" && kept {
			h.Report(fmt.Sprintf("The caches in the volume %s are kept with the sandboxes", v.name))
			continue
		}
		err := d.RemoveVolume(ctx, v.name)
		if err == nil && v.sandbox != "" {
			err = gitsync.Forget(h.StateDir, v.sandbox)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		removed = append(removed, "volume "+v.name)
		h.Report("Removed the volume " + v.name)
	}
	orphans, err := d.SweepOrphans(ctx, run.OrphanGrace)
	if errdefs.IsConflict(err) || errdefs.IsPermissionDenied(err) {
		err = nil // another command removes them
	}
	for _, name := range orphans {
		removed = append(removed, "leftover "+name)
	}
	return removed, errors.Join(append(errs, err)...)
}
