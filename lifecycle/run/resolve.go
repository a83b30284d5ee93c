package run

import (
	"context"
	"io"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/credential/agentconfig"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/approval"
	"github.com/docker-ralph/docker-ralph/lifecycle/commits"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

// Target is the scope, configuration, driver and sandbox of a command. It does not change.
type Target struct {
	Choice
	opts  Options
	wt    gitrepo.Worktree
	cfg   config.Effective
	spec  lifecycle.Spec
	cloud []string           // credentials of the cloud of the agent's model, as KEY=value
	files *agentconfig.Files // the user's agent settings
	scan  *commits.Scan
}

// save returns a function that fetches the commits of a sandbox before it is removed.
func (t Target) save(h host.Host) func(context.Context, lifecycle.Sandbox) error {
	return commits.Save(h, t.Backend, t.scan, t.wt)
}

// engineOf returns how to connect to the engine of the target's sandbox. One that is moved, or that
// is for one command only, is on the selected engine.
func (t Target) engineOf(ctx context.Context, h host.Host, connected func() (host.API, error)) engineOf {
	return func(sandbox string) (host.API, host.Engine, error) {
		if t.opts.Move || !t.cfg.Sandbox.Reuse {
			api, err := connected()
			return api, h.Selected, err
		}
		return h.EngineOf(ctx, sandbox, connected)
	}
}

// resolve finds the scope, and collects what a command in its sandbox needs.
func resolve(ctx context.Context, h host.Host, opts Options, connected func() (host.API, error)) (t Target, err error) {
	if t, err = configure(ctx, h, opts); err != nil {
		return t, err
	}
	if t.cloud, err = cloudKeys(ctx, h, t.wt, t.cfg); err != nil {
		return t, err
	}
	if t.files, err = hostConfig(h, t.cfg.Agent.Name, opts); err != nil {
		return t, err
	}
	if err := t.choose(ctx, h, connected); err != nil {
		return t, err
	}
	if t.Build { // which can use an existing sandbox
		if err := approval.ApproveBuild(ctx, h, t.Request.Project); err != nil {
			return t, err
		}
	}
	if commits.WantsClone(t.cfg, t.Kind) {
		if err := commits.Check(ctx, h, t.wt, t.name); err != nil {
			return t, err
		}
	}
	return t, t.describe(ctx, h, connected)
}

// configure finds the scope and reads its configuration.
func configure(ctx context.Context, h host.Host, opts Options) (t Target, err error) {
	t.opts = opts
	if t.wt, err = gitrepo.Detect(ctx, h.Dir, h.Getenv); err != nil {
		return t, err
	}
	if err := approval.ApproveNested(ctx, h, t.wt); err != nil {
		return t, err
	}
	if opts.Config != nil {
		t.cfg = *opts.Config
		return t, nil
	}
	t.cfg, err = approval.Configure(ctx, h, t.wt, opts.Overrides)
	return t, err
}

// choose chooses driver and image.
func (t *Target) choose(ctx context.Context, h host.Host, connected func() (host.API, error)) error {
	req, err := host.ImageRequest(ctx, t.wt, t.cfg)
	if err != nil {
		return err
	}
	if t.Choice, err = choose(ctx, h, t.wt, t.cfg, req, connected, t.engineOf(ctx, h, connected)); err != nil {
		return err
	}
	if err := commits.CheckClone(t.cfg, t.Kind); err != nil {
		return err
	}
	t.from = t.movedFrom(ctx, h, connected)
	return nil
}

// checkDriver returns an error if no sandbox can be created for a worktree that is not created yet: then it need not be.
// The configuration of the new worktree is that of its branch; this one may select another driver, and may
// have errors that the other has not.
func checkDriver(ctx context.Context, h host.Host, wt gitrepo.Worktree, opts Options, connected func() (host.API, error)) error {
	t := Target{opts: opts, wt: wt}
	var err error
	t.cfg, err = approval.Load(config.Sources{Root: wt.Root, UserDir: h.StateDir, Getenv: h.Getenv, Overrides: opts.Overrides})
	if err != nil {
		return nil //nolint:nilerr // see above
	}
	h.Stderr = io.Discard // warnings follow when the sandbox is created
	if err := t.choose(ctx, h, connected); err != nil || t.API == nil {
		return err
	}
	return ping(ctx, t.API)
}

// describe names and describes the sandbox.
func (t *Target) describe(ctx context.Context, h host.Host, connected func() (host.API, error)) (err error) {
	if t.cfg.Sandbox.Reuse { // others have unique names
		if err := resolveName(ctx, h, t.wt, &t.Choice); err != nil {
			return err
		}
	}
	if t.API != nil { // of the sandbox
		connected = func() (host.API, error) { return t.API, nil }
	}
	t.scan = &commits.Scan{Host: h, Root: t.wt.Root, Mode: t.opts.CredScan, Connected: connected}
	t.spec, err = spec(h, t.wt, t.cfg, t.Choice)
	return err
}
