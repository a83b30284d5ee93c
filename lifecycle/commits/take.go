package commits

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/ralph/session"
)

// Take has the user's repository take the commits of a run that a loop in the sandbox has completed. They are taken
// as well if the user has to merge them, which ends the loop, or if something prevents for now that the user's
// branch gets them. An error is no fault of the run.
func (g *Git) Take(ctx context.Context, sb lifecycle.Sandbox, commit string) (v session.Verdict, err error) {
	res, err := g.Repo.WithGate(g.scan.incomingOfRun(sb.Name)).Accept(ctx, Shell(g.Driver, sb), commit)
	if rejected, is := errors.AsType[*gitsync.RejectedError](err); is {
		v.Refused = rejected.Error()
		return v, nil
	}
	if err == nil {
		g.add(res)
		v.Tree, err = g.Repo.Tree(ctx, commit)
	}
	if err != nil {
		return session.Verdict{}, fmt.Errorf("fetching commits from sandbox %s: %w", sb.Name, err)
	}
	if c := res.Conflict; c != nil && c.Diverged() {
		v.Finish = c.Error()
	}
	return v, nil
}

// TakeLive is [Git.Take] for a sandbox that has the worktree itself.
func TakeLive(ctx context.Context, h host.Host, wt gitrepo.Worktree, name, commit string) (v session.Verdict, err error) {
	repo, err := gitsync.Open(wt, name, h.StateDir)
	if err != nil {
		return v, err
	}
	if v.Tree, err = repo.Tree(ctx, commit); err != nil {
		h.ReportDebug(err.Error()) // an agent can have made a repository of its own
	}
	return v, nil
}

// Begin brings the user's new commits to the sandbox before a loop, whose session has that ID, starts a run, unless
// another command runs there. A failure is a warning: the run begins at what the sandbox has.
func (g *Git) Begin(ctx context.Context, sb lifecycle.Sandbox, id string) {
	ahead, err := g.Repo.Ahead(ctx)
	if err == nil && ahead {
		err = g.pushBeside(ctx, sb, id)
	}
	if err != nil {
		g.Host.Warn(fmt.Errorf("sandbox %s does not have your latest commits: %w", sb.Name, err))
	}
}

// pushBeside pushes while no command but the one with that ID runs in the sandbox.
func (g *Git) pushBeside(ctx context.Context, sb lifecycle.Sandbox, id string) error {
	running, err := g.Driver.Dispatches(ctx, sb)
	if err != nil || slices.ContainsFunc(running, func(d lifecycle.Dispatch) bool { return d.ID != id && !d.Service() }) {
		return err
	}
	res, err := g.Repo.PushAhead(ctx, Shell(g.Driver, sb))
	g.add(res)
	return err
}

// Accepted returns the last commit of the sandbox's branch that the user's repository has accepted.
func (g *Git) Accepted(context.Context) (string, error) { return g.Repo.Accepted() }

// ReportTaken reports the commits that were taken so far.
func (g *Git) ReportTaken() {
	if g != nil {
		g.report(gitsync.Result{})
	}
}
