package commits

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/docker-ralph/docker-ralph/lifecycle/approval"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// Git is the clone of a sandbox while a command runs.
type Git struct {
	Host   host.Host
	Driver lifecycle.Driver
	Repo   *gitsync.Repo
	aside  *gitsync.Repo // the same, while an agent uses the terminal
	scan   *Scan
	loop   bool // see [Git.ForLoop]

	mu     sync.Mutex
	result gitsync.Result // of all syncs so far
	// repairs are messages about repairs of the git directory.
	repairs []string
}

// liveWarning is printed once per sandbox.
const liveWarning = "Warning: the agent works on your files and your git directory: hooks, git configuration and build files that it leaves there run when you use them"

// Check rejects repositories that cannot be cloned, and unfinished operations of git. It needs no
// engine.
func Check(ctx context.Context, h host.Host, wt gitrepo.Worktree, name string) error {
	repo, err := gitsync.Open(wt, name, h.StateDir)
	if err != nil {
		return err
	}
	return repo.Check(ctx)
}

// Brings is what a clone gets of the worktree besides commits.
type Brings struct {
	Changes bool     // the uncommitted changes
	Ignored []string // the ignored files that match these patterns
}

// Open opens the clone of a sandbox; nil if its spec has none.
func Open(ctx context.Context, h host.Host, wt gitrepo.Worktree, at host.Backend, i *Scan, spec *lifecycle.Spec, brings Brings) (*Git, error) {
	if !spec.Private && h.CreatedBy(spec.Name) == "" {
		h.Report(liveWarning)
	}
	if !spec.Private {
		return nil, nil
	}
	repo, err := gitsync.Open(wt, spec.Name, h.StateDir)
	if err != nil {
		return nil, err
	}
	listed, err := approval.ApproveIncludes(ctx, h, wt)
	if err != nil {
		return nil, err
	}
	if repo, err = repo.OnBranch(ctx); err != nil {
		return nil, err
	}
	repo = repo.Including(brings.Ignored, listed).WithProgress(progress(h, spec.Name))
	if brings.Changes {
		repo = repo.WithChanges()
	}
	if h.CreatedBy(spec.Name) == "" {
		if err := repo.CheckIncluded(ctx); err != nil {
			return nil, err
		}
	}
	g := &Git{
		Host: h, Driver: at.Driver, scan: i,
		Repo: repo.WithGate(i.Incoming(spec.Name)), aside: repo.WithGate(i.incomingAside(spec.Name)),
	}
	spec.Git = func(ctx context.Context) (*gitsync.Layout, error) {
		if err := repo.CheckKind(ctx); err != nil {
			return nil, err
		}
		return repo.Layout(), nil
	}
	return g, nil
}

// Push pushes to the sandbox before a command starts an agent or a shell in it. If another
// command may commit there, it only fetches; see [IsStillBusy] for a broken git
// directory.
func (g *Git) Push(ctx context.Context, sb lifecycle.Sandbox, command string, alone bool) error {
	if g == nil {
		return nil
	}
	if alone {
		if done, err := g.pushUnchanged(ctx, sb); done || err != nil {
			return err
		}
	}
	err := g.push(ctx, sb, alone)
	if c, is := errors.AsType[*gitsync.Conflict](err); is && c.FixedInSandbox() && command == host.ShellCommand {
		reportConflict(g.Host, c)
		err = nil
	}
	if _, is := errors.AsType[*gitsync.BlockedError](err); is && command == host.ShellCommand { // where it can be removed
		g.Host.Warn(err)
		err = nil
	}
	return err
}

// ForLoop prepares the clone for a loop, whose commits go to the user's branch once a run was accepted.
func (g *Git) ForLoop() {
	if g != nil {
		g.Repo, g.loop = g.Repo.WithLoop(), true
	}
}

// Enter fetches the commits of a command that is no loop while it runs in the sandbox, until leave is called.
func (g *Git) Enter(ctx context.Context, sb lifecycle.Sandbox) (leave func(), err error) {
	if err := g.Repo.MarkDirty(ctx); err != nil {
		return nil, err
	}
	if g.loop {
		return func() {}, nil
	}
	return g.follow(ctx, func(ctx context.Context, final string) (gitsync.Result, string, error) {
		return g.aside.Follow(ctx, Shell(g.Driver, sb), final)
	}), nil
}

// pushUnchanged pushes to a sandbox that has not changed since its last command.
func (g *Git) pushUnchanged(ctx context.Context, sb lifecycle.Sandbox) (done bool, err error) {
	res, done, err := g.Repo.PushUnchanged(ctx, Shell(g.Driver, sb))
	if done && err == nil {
		reportUncommitted(g.Host, res.Uncommitted)
	}
	return done, err
}

// push pushes to the sandbox, and repairs its git directory. While another command may run in
// it, it only fetches.
func (g *Git) push(ctx context.Context, sb lifecycle.Sandbox, alone bool) error {
	busy := !alone
	if alone {
		var err error
		if busy, err = g.Driver.Busy(ctx, sb); err != nil {
			return err
		}
	}
	if busy {
		res, _, err := g.Repo.Follow(ctx, Shell(g.Driver, sb), "")
		ReportSync(g.Host, res)
		if IsBroken(err) {
			return stillBusy(sb, err)
		}
		if err == nil {
			err = g.reportUnsent(ctx, sb)
		}
		return recreateHint(sb, err)
	}
	res, err := g.Repo.Push(ctx, Shell(g.Driver, sb))
	if IsBroken(err) {
		var repaired gitsync.Result
		if repaired, err = g.repair(ctx, sb, err); err == nil {
			g.reportRepairs()
			ReportSync(g.Host, repaired)
			res, err = g.Repo.Push(ctx, Shell(g.Driver, sb))
		}
	}
	ReportSync(g.Host, res)
	reportUncommitted(g.Host, res.Uncommitted)
	if n := len(res.Sent); n > 0 {
		g.Host.Report(fmt.Sprintf("Sent your uncommitted changes in %s, which are left out of the sandbox's commits: %s", host.Count(n, "file"), host.Some(res.Sent)))
	}
	if n := len(res.Included); n > 0 {
		g.Host.Report(fmt.Sprintf("Copied %s that git ignores to the sandbox: %s", host.Count(n, "file"), host.Some(res.Included)))
	}
	return recreateHint(sb, err)
}

// Sync fetches the commits of a sandbox, and repairs its git directory. A command that
// runs in it does that itself.
func (g *Git) Sync(ctx context.Context, sb lifecycle.Sandbox) error {
	if g == nil {
		return nil
	}
	unlock, err := g.Host.TryLockAgents(sb.Name)
	if err != nil || unlock == nil {
		return err
	}
	defer unlock()
	return g.push(ctx, sb, true)
}

// recreateHint adds the remedy to the error for a git directory that does not work.
func recreateHint(sb lifecycle.Sandbox, err error) error {
	if isHeld(err) {
		return heldHint(sb, err)
	}
	_, refused := errors.AsType[*gitsync.RefusedError](err)
	if refused || gitsync.Permanent(err) {
		return hint.Wrap(err, "%s", DiscardHint(sb.Name))
	}
	return err
}
