package run

import (
	"cmp"
	"context"
	"path/filepath"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/credential/agentconfig"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/approval"
	"github.com/docker-ralph/docker-ralph/lifecycle/commits"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

// cloneUser is the user of agent images, whom all files of a clone in a container belong to.
var cloneUser = lifecycle.User{UID: 1000, GID: 1000}

// spec derives the spec of the sandbox.
func spec(h host.Host, wt gitrepo.Worktree, cfg config.Effective, at Choice) (lifecycle.Spec, error) {
	name := at.name
	clone := commits.WantsClone(cfg, at.Kind)
	var user lifecycle.User
	switch {
	case at.Kind != config.DriverContainer: // a microVM maps users itself
	case clone:
		user = cloneUser
	default:
		var err error
		if user, err = host.InvokingUser(wt.Root); err != nil {
			return lifecycle.Spec{}, err
		}
	}
	if !cfg.Sandbox.Reuse {
		name = host.EphemeralName(name)
	}
	r := cfg.Sandbox.Resources
	limits := lifecycle.Resources{Memory: r.Memory, NanoCPUs: r.NanoCPUs(), Pids: r.Pids}
	if !lifecycle.Limits(at.Driver) {
		limits = lifecycle.Resources{}
	}
	spec := lifecycle.Spec{
		Name:      name,
		Scope:     wt.Scope,
		Root:      wt.Root,
		Moved:     at.moved,
		Mounts:    gitMounts(wt),
		Probe:     filepath.Join(wt.GitDir, "HEAD"),
		MainRoot:  wt.MainRoot,
		Agent:     cfg.Agent.Name,
		Image:     at.Image,
		Private:   clone,
		Clone:     clone,
		Resources: limits,
		User:      user,
		Version:   h.Version,
		Config:    agentconfig.StagingOf(h.StateDir, at.Kind, name).Shown(),
		Ephemeral: !cfg.Sandbox.Reuse,
	}
	if at.Kind == config.DriverContainer {
		spec.Cache = cmp.Or(wt.MainRoot, wt.CommonDir)
	}
	if clone {
		spec.Mounts, spec.Probe = nil, ""
	}
	return spec, setPolicy(h, &spec, cfg, at)
}

// gitMounts returns the git directories outside the worktree: those of a linked worktree
// or a submodule.
func gitMounts(wt gitrepo.Worktree) []string {
	var mounts []string
	for _, dir := range []string{wt.CommonDir, wt.GitDir} {
		covered := within(dir, wt.Root)
		for _, m := range mounts {
			covered = covered || within(dir, m)
		}
		if !covered {
			mounts = append(mounts, dir)
		}
	}
	return mounts
}

func within(dir, root string) bool {
	rel, err := filepath.Rel(root, dir)
	return err == nil && filepath.IsLocal(rel)
}

// ensurer returns the ensurer of a target's sandbox, for a command that uses it.
func ensurer(h host.Host, t Target, use *host.Use) *lifecycle.Ensurer {
	e := &lifecycle.Ensurer{
		Driver:   t.Driver,
		Why:      host.Reasons(t.leftOut),
		Save:     t.save(h),
		LockDir:  h.LockDir(),
		Outdated: func(sb lifecycle.Sandbox) bool { return sb.Private && !sb.Clone },
		Report:   h.Report,
		Confirm:  h.Confirm,
		Failed:   func(ctx context.Context, sb lifecycle.Sandbox) { reportFailed(ctx, h, t.Driver, sb) },
		Image: func(ctx context.Context) error {
			sweepOrphans(ctx, h, t.Driver)
			if !t.Build {
				return nil
			}
			req := t.Request
			if err := approval.ApproveBuild(ctx, h, req.Project); err != nil {
				return err
			}
			req.Rebuild = t.opts.Rebuild
			_, err := h.Builder(t.API).Ensure(ctx, req)
			return err
		},
	}
	if gitsync.IsClone(h.StateDir, t.name) { // another command could commit there after they were fetched
		e.Exclude = func(lifecycle.Sandbox) (func(), error) { return use.Exclude() }
	}
	return e
}
