package run

import (
	"context"
	"path/filepath"

	"github.com/docker-ralph/docker-ralph/lifecycle/approval"
	"github.com/docker-ralph/docker-ralph/lifecycle/commits"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// job is one dispatch: where it is from, and what its sandbox must be like.
type job struct {
	session
	opts Options
	wt   gitrepo.Worktree
	cfg  config.Effective
	at   Target
	spec lifecycle.Spec
	keys []string // of a cloud, as KEY=value
}

// decide finds the scope, reads the configuration, and chooses driver and image.
func (j *job) decide(ctx context.Context, connected func() (host.API, error)) (err error) {
	if j.wt, err = gitrepo.Detect(ctx, j.Dir, j.Getenv); err != nil {
		return err
	}
	if err := approval.ApproveNested(ctx, j.session.Host, j.wt); err != nil {
		return err
	}
	if j.opts.Config != nil {
		j.cfg = *j.opts.Config
	} else if j.cfg, err = approval.Configure(ctx, j.session.Host, j.wt, j.opts.Overrides); err != nil {
		return err
	}
	if j.keys, err = cloudKeys(ctx, j.session.Host, j.wt, j.cfg, j.opts.Command); err != nil {
		return err
	}
	files, err := hostConfig(j.session.Host, j.cfg.Agent.Name, j.opts)
	if err != nil {
		return err
	}
	req, err := host.ImageRequest(ctx, j.wt, j.cfg)
	if err != nil {
		return err
	}
	if j.at, err = Choose(ctx, j.session.Host, j.wt, j.cfg, req, connected); err != nil {
		return err
	}
	if j.at.Build && j.opts.Command != host.TaskCommand { // which makes do with the sandbox that exists
		if err := approval.ApproveBuild(ctx, j.session.Host, req.Project); err != nil {
			return err
		}
	}
	if j.at.Kind == config.DriverContainer && commits.WantsPrivate(j.cfg, j.at.Kind) {
		if err := commits.Check(ctx, j.session.Host, j.wt, j.at.name, j.opts.Command); err != nil {
			return err
		}
	}
	if j.cfg.Sandbox.Reuse { // others have names of their own
		if err := settleName(ctx, j.session.Host, j.wt, &j.at); err != nil {
			return err
		}
	}
	j.at.config = files
	j.at.inspect = &commits.Scan{Host: j.Host, Root: j.wt.Root, Mode: j.opts.CredScan, Connected: connected}
	if j.spec, err = spec(j.Host, j.wt, j.cfg, j.at); err != nil {
		return err
	}
	return commits.CheckPrivate(j.wt, j.cfg, j.at.Kind)
}

// equip adds what the command needs of git and of secrets, and returns its
// environment but for the keys of a cloud.
func (j *job) equip(ctx context.Context) (env []string, err error) {
	command := j.opts.Command
	if j.at.git, err = commits.Open(ctx, j.session.Host, j.wt, j.at.Backend, j.at.inspect, &j.spec); err != nil {
		return nil, err
	}
	if err := signs(ctx, j.session.Host, j.wt, j.cfg, &j.at, &j.spec, command); err != nil {
		return nil, err
	}
	if err := keepKeys(ctx, j.session.Host, j.cfg, &j.at, &j.spec, len(j.keys) > 0, command); err != nil {
		return nil, err
	}
	if j.at.keys != nil && len(j.keys) == 0 {
		if err := checkEndpoints(j.session.Host, j.at, j.spec.Egress.Policy.Mode, j.cfg.Agent.Name); err != nil {
			return nil, err
		}
	}
	if command != host.TaskCommand {
		openEndpoints(j.session.Host, &j.at, &j.spec, j.keys)
	}
	if err := gitToken(ctx, j.session.Host, j.wt, j.cfg, &j.at, &j.spec, command); err != nil {
		return nil, err
	}
	return environment(ctx, j.session.Host, j.wt, j.cfg, j.at, len(j.keys) > 0, command)
}

// do brings the sandbox up and runs the command there, to its end.
func (j *job) do(ctx context.Context, env []string) (int, error) {
	own := j.at.name // also of a sandbox for one dispatch
	ensurer := ensurer(j.session.Host, j.at, j.opts)
	ensurer.Save = commits.Save(j.session.Host, j.at.Backend, j.at.inspect, j.wt)
	if j.opts.Command == host.TaskCommand {
		ensurer.AnyAgent = egressOf(j.session.Host, j.spec, j.cfg, j.at)
	}
	if host.IsLoop(j.opts.Command) {
		j.TellEnd(own)
		j.TellBeside(j.wt)
	}
	code, sb, err := j.ensureAndExecute(ctx, j.at, j.spec, ensurer, j.opts, lifecycle.Process{
		ID:      j.dispatchID(),
		Lasting: j.opts.Command != host.TaskCommand,
		Args:    append([]string{"ralph", j.opts.Command}, j.opts.Args...),
		AnyCode: j.opts.AnyCode,
		Env:     append(env, j.keys...),
		Dir:     filepath.ToSlash(filepath.Join(j.wt.Root, j.wt.Prefix)),
	})
	code, err = conclude(ctx, j.session.Host, j.at, j.wt, j.spec, sb, j.opts.Command, code, err)
	j.finish(own, j.wt.Root, code, err)
	return code, err
}
