package dispatch

import (
	"context"
	"path/filepath"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// job is one dispatch: where it is from, and what its sandbox must be like.
type job struct {
	Host
	opts Options
	wt   gitrepo.Worktree
	cfg  config.Effective
	at   place
	spec lifecycle.Spec
	keys []string // of a cloud, as KEY=value
}

// decide finds the scope, reads the configuration, and chooses driver and image.
func (j *job) decide(ctx context.Context, connected func() (API, error)) (err error) {
	if j.wt, err = gitrepo.Detect(ctx, j.Dir, j.getenv); err != nil {
		return err
	}
	if err := j.approveNested(ctx, j.wt); err != nil {
		return err
	}
	if j.cfg, err = j.configure(ctx, j.wt, j.opts); err != nil {
		return err
	}
	if j.keys, err = j.cloudKeys(ctx, j.wt, j.cfg, j.opts.Command); err != nil {
		return err
	}
	files, err := j.hostConfig(j.cfg.Agent.Name, j.opts)
	if err != nil {
		return err
	}
	req, err := imageRequest(ctx, j.wt, j.cfg)
	if err != nil {
		return err
	}
	if j.at, err = j.choose(ctx, j.wt, j.cfg, req, connected); err != nil {
		return err
	}
	if j.at.build && j.opts.Command != taskCommand { // which makes do with the sandbox that exists
		if err := j.approveBuild(ctx, req.Project); err != nil {
			return err
		}
	}
	if j.at.kind == config.DriverContainer && wantsPrivate(j.cfg, j.at.kind) {
		if err := j.checkGit(ctx, j.wt, j.at.name, j.opts.Command); err != nil {
			return err
		}
	}
	if j.cfg.Sandbox.Reuse { // others have names of their own
		if err := j.settleName(ctx, j.wt, &j.at); err != nil {
			return err
		}
	}
	j.at.config = files
	j.at.inspect = &inspection{host: j.Host, root: j.wt.Root, mode: j.opts.CredScan, connected: connected}
	if j.spec, err = j.Host.spec(j.wt, j.cfg, j.at); err != nil {
		return err
	}
	return checkPrivate(j.wt, j.cfg, j.at.kind)
}

// equip adds what the command needs of git and of secrets, and returns its
// environment but for the keys of a cloud.
func (j *job) equip(ctx context.Context) (env []string, err error) {
	command := j.opts.Command
	if err := j.ownGit(ctx, j.wt, &j.at, &j.spec); err != nil {
		return nil, err
	}
	if err := j.signs(ctx, j.wt, j.cfg, &j.at, &j.spec, command); err != nil {
		return nil, err
	}
	if err := j.keepKeys(ctx, j.cfg, &j.at, &j.spec, len(j.keys) > 0, command); err != nil {
		return nil, err
	}
	if j.at.keys != nil && len(j.keys) == 0 {
		if err := j.checkEndpoints(j.at, j.spec.Egress.Policy.Mode, j.cfg.Agent.Name); err != nil {
			return nil, err
		}
	}
	if command != taskCommand {
		j.openEndpoints(&j.at, &j.spec, j.keys)
	}
	if err := j.gitToken(ctx, j.wt, j.cfg, &j.at, &j.spec, command); err != nil {
		return nil, err
	}
	return j.environment(ctx, j.wt, j.cfg, j.at, len(j.keys) > 0, command)
}

// do brings the sandbox up and runs the command there, to its end.
func (j *job) do(ctx context.Context, env []string) (int, error) {
	own := j.at.name // also of a sandbox for one dispatch
	ensurer := j.ensurer(j.at, j.opts)
	ensurer.Save = j.save(j.at, j.wt)
	if j.opts.Command == taskCommand {
		ensurer.AnyAgent = j.egressOf(j.spec, j.cfg, j.at)
	}
	if IsLoop(j.opts.Command) {
		j.tellEnd(own)
		j.tellBeside(j.wt)
	}
	code, sb, err := j.ensureAndExecute(ctx, j.at, j.spec, ensurer, j.opts, lifecycle.Process{
		ID:      j.dispatchID(),
		Lasting: j.opts.Command != taskCommand,
		Args:    append([]string{"ralph", j.opts.Command}, j.opts.Args...),
		AnyCode: j.opts.AnyCode,
		Env:     append(env, j.keys...),
		Dir:     filepath.ToSlash(filepath.Join(j.wt.Root, j.wt.Prefix)),
	})
	code, err = j.conclude(ctx, j.at, j.wt, j.spec, sb, j.opts.Command, code, err)
	j.finish(own, j.wt.Root, code, err)
	return code, err
}
