package run

import (
	"context"

	"github.com/docker-ralph/docker-ralph/credential"
	"github.com/docker-ralph/docker-ralph/lifecycle/approval"
	"github.com/docker-ralph/docker-ralph/lifecycle/commits"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/notify"
)

// Ready is a target with its git directory, keys and environment. Its spec is complete.
type Ready struct {
	Target
	git       *commits.Git       // the clone; nil without
	signer    *signer            // signs commits; nil without
	keys      *credential.Routed // keys that the proxy of a container keeps; nil without a proxy
	endpoints []string           // rules for the hosts of the agent's endpoints
	origin    *gitAccess         // how git uses a token for origin; nil without
	env       []string           // KEY=value
	use       *host.Use          // set before the command runs
	notify    *notify.Loop       // set before the command runs; nil for none
}

// watch reports changed hooks and settings of the worktree that the agent of an earlier command has
// left, and returns a function that reports those of this one. Until that has ended, the settings hold.
func (r Ready) watch(ctx context.Context, h host.Host) (report func(_ context.Context, seen, ended bool) error, err error) {
	watched := commits.Watch(ctx, h, r.wt, r.name, !r.spec.Private)
	release, err := approval.Hold(h, r.wt, r.cfg)
	return func(ctx context.Context, seen, ended bool) error {
		watched.Report(ctx, seen)
		if !ended {
			return nil
		}
		return release()
	}, err
}

// prepare collects what the command needs besides the sandbox.
func prepare(ctx context.Context, h host.Host, t Target) (r Ready, err error) {
	spec := t.spec
	brings := commits.Brings{Changes: t.opts.WithChanges, Ignored: t.cfg.Include}
	if r.git, err = commits.Open(ctx, h, t.wt, t.Backend, t.scan, &spec, brings); err != nil {
		return r, err
	}
	if host.IsLoop(t.opts.Command) {
		r.git.ForLoop()
	}
	if r.signer, err = signs(ctx, h, t, r.git != nil, &spec); err != nil {
		return r, err
	}
	if r.keys, err = routeKeys(ctx, h, t); err != nil {
		return r, err
	}
	if r.keys != nil && len(t.cloud) == 0 {
		if err := checkEndpoints(h, r.keys, spec.Egress.Policy.Mode, t.cfg.KeyAgent()); err != nil {
			return r, err
		}
	}
	r.endpoints = openEndpoints(h, r.keys, &spec.Egress, t.cloud)
	if r.origin, err = gitToken(ctx, h, t, r.git != nil); err != nil {
		return r, err
	}
	_, spec.Egress.Routes = r.routes()
	if r.env, err = environment(ctx, h, t, r.keys); err != nil {
		return r, err
	}
	t.spec = spec
	r.Target = t
	return r, nil
}
