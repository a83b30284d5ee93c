// Package dispatch is the way of one command from the host into a sandbox:
// scope, configuration, driver, sandbox, execution.
package run

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/docker-ralph/docker-ralph/lifecycle/approval"
	"github.com/docker-ralph/docker-ralph/lifecycle/commits"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"

	"github.com/docker-ralph/docker-ralph/wire"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/credential/hostconfig"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// Options say what to run and how.
type Options struct {
	// Command is plan, build, run, shell or task.
	Command string
	// Args are the command's, handed over as they are.
	Args []string
	// Overrides are configuration from the command line.
	Overrides config.Overrides
	// Recreate makes the sandbox anew.
	Recreate bool
	// Rebuild builds the image anew.
	Rebuild bool
	// CredScan looks for credentials in the work tree first, and in commits of
	// the sandbox before they are fetched: [CredScanBlock] stops for them,
	// [CredScanWarn] tells of them; empty for neither.
	CredScan string
	// Worktree is the worktree to run in, which is made if it is not there; nil
	// for the one that the command was given in.
	Worktree *host.Worktree
	// Raw passes the command's output on as it is, for a program that has the
	// terminal to itself, or for one whose output nobody sees.
	Raw bool
	// AnyCode says that the command's exit code can be that of any program.
	AnyCode bool
	// RequireClean refuses a working tree with uncommitted changes.
	RequireClean bool
	// NoHostConfig leaves the user's configuration of the agent outside.
	NoHostConfig bool

	Config *config.Effective // instead of what is configured; nil but in the self-test
}

// session is one command on its way: where it comes from and, for a loop, how that
// goes on without a terminal.
type session struct {
	host.Host
	away *away // nil for what cannot leave its terminal
	raw  bool  // as [Options.Raw]
}

// Run executes one command in the sandbox of the current scope and returns
// its exit code. An error means that the command did not run, or that nobody
// can tell how it ended.
func Run(ctx context.Context, from host.Host, opts Options) (int, error) {
	h := session{Host: from, raw: opts.Raw}
	if h.Background != nil && host.IsLoop(opts.Command) {
		var stay func()
		h, stay = h.depart(ctx)
		defer stay()
	}
	code, err := run(ctx, h, opts)
	if err != nil && h.away.left() {
		h.finish("", "", code, err)
		return max(code, 1), nil // whoever called us has nobody to tell it to
	}
	return code, err
}

func run(ctx context.Context, h session, opts Options) (int, error) {
	connected := h.Connect()
	var err error
	h.Host, err = h.Into(ctx, opts.Worktree)
	if err != nil {
		return 0, err
	}
	j := &job{session: h, opts: opts}
	if err := j.decide(ctx, connected); err != nil {
		return 0, err
	}
	if err := commits.CheckUncommitted(ctx, h.Host, j.wt, j.spec, opts.Command, opts.RequireClean); err != nil {
		return 0, err
	}
	env, err := j.equip(ctx)
	if err != nil {
		return 0, err
	}
	leave, err := enter(ctx, h.Host, j.at, j.wt, j.spec)
	if err != nil {
		return 0, err
	}
	defer leave()
	if err := j.at.inspect.Worktree(ctx, opts.Command); err != nil {
		return 0, err
	}
	if err := checkBacklog(h.Host, j.at, j.spec, opts); err != nil {
		return 0, err
	}
	return j.do(ctx, env)
}

// ensureAndExecute brings the sandbox up and runs the process in it. A loop that
// dies with its sandbox is started again, once that is repaired.
func (h session) ensureAndExecute(ctx context.Context, at Target, spec lifecycle.Spec, ensurer *lifecycle.Ensurer, opts Options, p lifecycle.Process) (int, lifecycle.Sandbox, error) {
	r := &recovery{host: h.Host, driver: at.Driver, command: opts.Command, root: spec.Root, id: p.ID}
	env := p.Env
	for {
		code, sb, err := h.attempt(ctx, r, at, spec, ensurer, opts, p)
		if err == nil && code == wire.ExitNoGit && host.IsLoop(opts.Command) && at.git != nil {
			r.blame("has a broken git directory") // which is restored before the next attempt
		}
		again, err := r.died(ctx, sb, code, err)
		if !again {
			h.away.settle()
			return code, sb, err
		}
		p.Env, opts.Recreate = r.environment(env), false
		if err := refresh(h.Host, at, &spec); err != nil {
			return code, sb, err
		}
	}
}

// attempt brings the sandbox up and runs the process in it. If ralph turns out not
// to be there, though it was put there, that is done once more.
func (h session) attempt(ctx context.Context, r *recovery, at Target, spec lifecycle.Spec, ensurer *lifecycle.Ensurer, opts Options, p lifecycle.Process) (int, lifecycle.Sandbox, error) {
	sb, err := ensurer.Ensure(ctx, spec, opts.Recreate)
	if err != nil {
		return 0, lifecycle.Sandbox{}, err
	}
	if err := relocate(ctx, at, sb, spec); err != nil {
		return 0, sb, err
	}
	r.began = time.Now()
	h.NameOrphans(ctx, at.Driver, sb)
	if err := restrict(ctx, at, sb, spec, opts.Command); err != nil {
		return 0, sb, err
	}
	defer h.watchRefused(ctx, at, sb, opts.Command)()
	execute := func() (int, error) {
		if err := bringConfig(ctx, h.Host, at, sb, at.config, opts.Command); err != nil {
			return 0, err
		}
		led, done, err := handOver(ctx, h.Host, at, sb, p)
		if err != nil {
			return 0, err
		}
		defer done()
		led, stop, err := at.signer.serve(ctx, at, sb, led)
		if err != nil {
			return 0, err
		}
		defer stop()
		defer tend(ctx, h.Host, r, at, spec, ensurer)()
		code, err := executeSynced(ctx, at, sb, opts.Command, func() (int, error) {
			keep, err := keepBacklog(ctx, h.Host, at, sb, spec, opts, r.cause != "")
			if err != nil {
				return 0, err
			}
			code, err := h.execute(ctx, at.Driver, sb, led, opts.Command)
			return code, cmp.Or(err, keep(code))
		})
		tellDetached(h.Host, at, err)
		return code, err
	}
	code, err := execute()
	if errors.Is(err, lifecycle.ErrNotPrepared) {
		if sb, err = ensurer.Ensure(ctx, spec, false); err != nil {
			return 0, lifecycle.Sandbox{}, err
		}
		code, err = execute()
	}
	return code, sb, err
}

// spec derives what the sandbox must be like.
func spec(h host.Host, wt gitrepo.Worktree, cfg config.Effective, at Target) (lifecycle.Spec, error) {
	name := at.name
	var user lifecycle.User // a microVM maps its own to ours
	if at.Kind == config.DriverContainer {
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
		limits = lifecycle.Resources{} // it knows none, so none can have changed
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
		Private:   commits.WantsPrivate(cfg, at.Kind),
		Resources: limits,
		User:      user,
		Version:   h.Version,
		Config:    hostconfig.StagingOf(h.StateDir, at.Kind, name).Shown(),
		Ephemeral: !cfg.Sandbox.Reuse,
	}
	if at.Kind == config.DriverContainer {
		spec.Cache = cmp.Or(wt.MainRoot, wt.CommonDir)
		if err := shadowModules(&spec, cfg); err != nil {
			return lifecycle.Spec{}, err
		}
	}
	return spec, wall(h, &spec, cfg, at)
}

// gitMounts are the git directories outside the work tree, without which git
// does not work inside: those of a linked worktree or a submodule.
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

func ensurer(h host.Host, at Target, opts Options) *lifecycle.Ensurer {
	return &lifecycle.Ensurer{
		Driver:  at.Driver,
		Why:     at.why,
		LockDir: h.LockDir(),
		Report:  h.Report,
		Confirm: h.Confirm,
		Failed:  func(ctx context.Context, sb lifecycle.Sandbox) { tellFailed(ctx, h, at.Driver, sb) },
		Image: func(ctx context.Context) error {
			sweepOrphans(ctx, h, at.Driver)
			if !at.Build {
				return nil
			}
			req := at.Request
			if err := approval.ApproveBuild(ctx, h, req.Project); err != nil {
				return err
			}
			req.Rebuild = opts.Rebuild
			_, err := h.Builder(at.API).Ensure(ctx, req)
			return err
		},
	}
}
