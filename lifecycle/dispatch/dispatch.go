// Package dispatch is the way of one command from the host into a sandbox:
// scope, configuration, driver, sandbox, execution.
package dispatch

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"sync"
	"time"

	"github.com/docker-ralph/docker-ralph/wire"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/config/imageref"
	"github.com/docker-ralph/docker-ralph/credential/hostconfig"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container"
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
	Worktree *Worktree
	// Raw passes the command's output on as it is, for a program that has the
	// terminal to itself, or for one whose output nobody sees.
	Raw bool
	// AnyCode says that the command's exit code can be that of any program.
	AnyCode bool
	// RequireClean refuses a working tree with uncommitted changes.
	RequireClean bool
	// NoHostConfig leaves the user's configuration of the agent outside.
	NoHostConfig bool

	config *config.Effective // instead of what is configured; nil but in the self-test
}

// Run executes one command in the sandbox of the current scope and returns
// its exit code. An error means that the command did not run, or that nobody
// can tell how it ended.
func Run(ctx context.Context, h Host, opts Options) (int, error) {
	h.raw = opts.Raw
	if h.Background != nil && IsLoop(opts.Command) {
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

func run(ctx context.Context, h Host, opts Options) (int, error) {
	connected := h.connect()
	h, err := h.into(ctx, opts.Worktree)
	if err != nil {
		return 0, err
	}
	j := &job{Host: h, opts: opts}
	if err := j.decide(ctx, connected); err != nil {
		return 0, err
	}
	if err := j.checkUncommitted(ctx); err != nil {
		return 0, err
	}
	env, err := j.equip(ctx)
	if err != nil {
		return 0, err
	}
	leave, err := h.enter(ctx, j.at, j.wt, j.spec)
	if err != nil {
		return 0, err
	}
	defer leave()
	if err := j.at.inspect.tree(ctx, opts.Command); err != nil {
		return 0, err
	}
	if err := h.checkBacklog(j.at, j.spec, opts); err != nil {
		return 0, err
	}
	return j.do(ctx, env)
}

const (
	taskCommand = "task" // the one that starts no agent
	runCommand  = "run"  // which starts the agent as its user would

	buildCommand = "build"
)

// shellCommand is the one that the user works with.
const shellCommand = "shell"

// IsLoop tells whether a command works on by itself, so that it can be left
// alone, followed and taken back.
func IsLoop(command string) bool { return command == "plan" || command == buildCommand }

// ensureAndExecute brings the sandbox up and runs the process in it. A loop that
// dies with its sandbox is started again, once that is repaired.
func (h Host) ensureAndExecute(ctx context.Context, at place, spec lifecycle.Spec, ensurer *lifecycle.Ensurer, opts Options, p lifecycle.Process) (int, lifecycle.Sandbox, error) {
	r := &recovery{host: h, driver: at.driver, command: opts.Command, root: spec.Root, id: p.ID}
	env := p.Env
	for {
		code, sb, err := h.attempt(ctx, r, at, spec, ensurer, opts, p)
		if err == nil && code == wire.ExitNoGit && IsLoop(opts.Command) && at.git != nil {
			r.blame("has a broken git directory") // which is restored before the next attempt
		}
		again, err := r.died(ctx, sb, code, err)
		if !again {
			h.away.settle()
			return code, sb, err
		}
		p.Env, opts.Recreate = r.environment(env), false
		if err := h.refresh(at, &spec); err != nil {
			return code, sb, err
		}
	}
}

// attempt brings the sandbox up and runs the process in it. If ralph turns out not
// to be there, though it was put there, that is done once more.
func (h Host) attempt(ctx context.Context, r *recovery, at place, spec lifecycle.Spec, ensurer *lifecycle.Ensurer, opts Options, p lifecycle.Process) (int, lifecycle.Sandbox, error) {
	sb, err := ensurer.Ensure(ctx, spec, opts.Recreate)
	if err != nil {
		return 0, lifecycle.Sandbox{}, err
	}
	if err := relocate(ctx, at, sb, spec); err != nil {
		return 0, sb, err
	}
	r.began = time.Now()
	h.nameOrphans(ctx, at.driver, sb)
	if err := restrict(ctx, at, sb, spec, opts.Command); err != nil {
		return 0, sb, err
	}
	defer h.watchRefused(ctx, at, sb, opts.Command)()
	execute := func() (int, error) {
		if err := h.bringConfig(ctx, at, sb, at.config, opts.Command); err != nil {
			return 0, err
		}
		led, done, err := h.handOver(ctx, at, sb, p)
		if err != nil {
			return 0, err
		}
		defer done()
		led, stop, err := at.signer.serve(ctx, at, sb, led)
		if err != nil {
			return 0, err
		}
		defer stop()
		defer h.tend(ctx, r, at, spec, ensurer)()
		code, err := h.executeSynced(ctx, at, sb, opts.Command, func() (int, error) {
			keep, err := h.keepBacklog(ctx, at, sb, spec, opts, r.cause != "")
			if err != nil {
				return 0, err
			}
			code, err := h.execute(ctx, at.driver, sb, led, opts.Command)
			return code, cmp.Or(err, keep(code))
		})
		h.tellDetached(at, err)
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

// configure loads the configuration and has the user approve what a
// repository may not decide alone.
func (h Host) configure(ctx context.Context, wt gitrepo.Worktree, opts Options) (config.Effective, error) {
	if opts.config != nil {
		return *opts.config, nil
	}
	cfg, err := loadConfig(config.Sources{Root: wt.Root, UserDir: h.StateDir, Getenv: h.getenv, Overrides: opts.Overrides})
	if err != nil {
		return config.Effective{}, err
	}
	store := config.NewTrustStore(h.StateDir)
	err = trustedInMain(ctx, store, wt, cfg, store.Require(cfg))
	if untrusted, ok := errors.AsType[*config.UntrustedError](err); ok && h.Confirm != nil {
		yes, askErr := h.Confirm(ctx, Describe(untrusted.Settings)+"Trust these settings of the repository?")
		if askErr != nil {
			return config.Effective{}, askErr
		}
		if yes {
			err = store.Approve(wt.Root, cfg.WideningDigest())
		}
	}
	return cfg, err
}

// loadConfig is config.Load for those that use images.
func loadConfig(s config.Sources) (config.Effective, error) {
	s.Images = imageref.Checker{}
	return config.Load(s)
}

// spec derives what the sandbox must be like.
func (h Host) spec(wt gitrepo.Worktree, cfg config.Effective, at place) (lifecycle.Spec, error) {
	name := at.name
	var user lifecycle.User // a microVM maps its own to ours
	if at.kind == config.DriverContainer {
		var err error
		if user, err = invokingUser(wt.Root); err != nil {
			return lifecycle.Spec{}, err
		}
	}
	if !cfg.Sandbox.Reuse {
		name = ephemeralName(name)
	}
	r := cfg.Sandbox.Resources
	limits := lifecycle.Resources{Memory: r.Memory, NanoCPUs: r.NanoCPUs(), Pids: r.Pids}
	if !lifecycle.Limits(at.driver) {
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
		Image:     at.image,
		Private:   wantsPrivate(cfg, at.kind),
		Resources: limits,
		User:      user,
		Version:   h.Version,
		Config:    hostconfig.StagingOf(h.StateDir, at.kind, name).Shown(),
		Ephemeral: !cfg.Sandbox.Reuse,
	}
	if at.kind == config.DriverContainer {
		spec.Cache = cmp.Or(wt.MainRoot, wt.CommonDir)
		if err := shadowModules(&spec, cfg); err != nil {
			return lifecycle.Spec{}, err
		}
	}
	return spec, h.wall(&spec, cfg, at)
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

func (h Host) ensurer(at place, opts Options) *lifecycle.Ensurer {
	return &lifecycle.Ensurer{
		Driver:  at.driver,
		Why:     at.why,
		LockDir: h.lockDir(),
		Report:  h.report,
		Confirm: h.Confirm,
		Failed:  func(ctx context.Context, sb lifecycle.Sandbox) { h.tellFailed(ctx, at.driver, sb) },
		Image: func(ctx context.Context) error {
			if d, ok := at.driver.(*container.Driver); ok {
				var asked sync.WaitGroup
				defer asked.Wait()
				asked.Go(func() { d.AskEngine(ctx) })
			}
			h.sweepOrphans(ctx, at.driver)
			if !at.build {
				return nil
			}
			req := at.request
			if err := h.approveBuild(ctx, req.Project); err != nil {
				return err
			}
			req.Rebuild = opts.Rebuild
			_, err := h.builder(at.api).Ensure(ctx, req)
			return err
		},
	}
}
