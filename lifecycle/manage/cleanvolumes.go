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
	caches, err := d.CacheVolumes(root, c.home.Worktree.Scope.Repo)
	if err != nil {
		return err
	}
	for _, cache := range caches {
		has, err := d.HasVolume(ctx, cache)
		if foreign, is := errors.AsType[*lifecycle.ForeignError](err); is && foreign.Client != "" {
			c.theirs, err = append(c.theirs, "volume "+cache), nil
		} else if is {
			c.host.Warn(err)
			err = nil
		}
		if err != nil {
			return err
		}
		if has {
			on.list = append(on.list, container.GitVolume{Name: cache})
		}
	}
	git, err := d.GitVolumes(ctx, root)
	if err != nil {
		return err
	}
	for _, v := range git {
		if v.OtherClient != "" {
			c.theirs = append(c.theirs, "volume "+v.Name)
			continue
		}
		own := func(l host.Located) bool { return l.Sandbox.Name == v.Sandbox && l.Backend.Engine.Same(on.engine) }
		if slices.ContainsFunc(c.selected, own) {
			continue // removed with its sandbox
		}
		if !c.DiscardCommits && (c.isElsewhere(v, on.engine) || !gitsync.Saved(c.host.StateDir, v.Sandbox)) {
			c.host.Report(fmt.Sprintf("Warning: keeping volume %s: it may have the only copy of commits\nHint: %s", v.Name, commits.DiscardHint("--all")))
			continue
		}
		on.list = append(on.list, v)
	}
	return nil
}

// isElsewhere reports whether the state of a sandbox is that of one on another engine than a volume
// with its name.
func (c *cleanup) isElsewhere(v container.GitVolume, e host.Engine) bool {
	r, found := c.host.EngineRecord(v.Sandbox)
	return found && !r.Engine.Same(e)
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
		var err error
		if v.Sandbox == "" || c.isElsewhere(v, on.engine) {
			err = d.RemoveVolume(ctx, v.Name)
		} else if err = d.RemoveGit(ctx, v.Sandbox); err == nil {
			wt := c.home.Worktree
			sb := lifecycle.Sandbox{Name: v.Sandbox, Root: wt.Root, MainRoot: wt.MainRoot, Scope: wt.Scope}
			err = errors.Join(h.ForgetEngine(v.Sandbox), commits.ForgetRefs(ctx, h, sb))
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		removed = append(removed, "volume "+v.Name)
		h.Report("Removed volume " + v.Name)
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
