package commits

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// A loop goes on without its command on this machine: that was killed, or is on another one. Its
// commits are fetched by "status", and by the commands that follow the loop.

// WasLeft reports whether a sandbox may have commits that no command on this machine fetches.
func WasLeft(h host.Host, name string) bool {
	if !gitsync.Unfinished(h.StateDir, name) {
		return false
	}
	unlock, err := h.TryLockAgents(name)
	if unlock != nil {
		unlock()
	}
	return err == nil && unlock != nil
}

// FetchLeft fetches and reports the commits of a loop whose command on this machine is gone.
func FetchLeft(ctx context.Context, h host.Host, l host.Located) error {
	g, err := openRunning(ctx, h, l)
	if g == nil || err != nil {
		return err
	}
	return g.fetchLeft(ctx, l.Sandbox)
}

// FollowLeft is [FetchLeft], and fetches while the loop runs, after the events that are passed to event, until stop
// is called. stop reports and, if the loop has ended, fetches the rest.
func FollowLeft(ctx context.Context, h host.Host, l host.Located) (event func(runlog.Event), stop func(ended bool)) {
	g, err := openRunning(ctx, h, l)
	if err == nil && g != nil {
		err = g.fetchLeft(ctx, l.Sandbox)
	}
	if err != nil {
		h.Warn(err)
	}
	if g == nil {
		return g.Event, func(bool) {}
	}
	end := g.follow(ctx, true, func(ctx context.Context, final string) (gitsync.Result, string, error) {
		return g.tryLeft(ctx, l.Sandbox, g.aside, final)
	})
	return g.Event, func(ended bool) {
		end()
		if !ended {
			ReportSync(h, g.result)
		} else if err := g.fetchLeft(context.WithoutCancel(ctx), l.Sandbox); err != nil {
			h.Warn(err)
		}
	}
}

// FetchRunning fetches and reports the commits of a sandbox, if it runs.
func FetchRunning(ctx context.Context, h host.Host, l host.Located) error {
	g, err := openRunning(ctx, h, l)
	if g == nil || err != nil {
		return err
	}
	return g.Fetch(ctx, l.Sandbox)
}

// openRunning opens the clone of a running sandbox; nil for other sandboxes.
func openRunning(ctx context.Context, h host.Host, l host.Located) (*Git, error) {
	sb := l.Sandbox
	if !sb.Private || madeBySbx(l.Backend.Driver, sb) || sb.State != lifecycle.Running {
		return nil, nil
	}
	wt, err := worktreeOf(ctx, h, sb)
	if err != nil {
		return nil, fmt.Errorf("fetching commits from the sandbox %s: %w", sb.Name, err)
	}
	repo, err := gitsync.Open(wt, sb.Name, h.StateDir)
	if err != nil {
		return nil, err
	}
	i := scanOf(h, l, wt)
	return &Git{Host: h, Driver: l.Backend.Driver, Repo: repo.WithGate(i.Incoming(sb.Name)), aside: repo.WithGate(i.incomingAside(sb.Name))}, nil
}

// fetchLeft fetches and reports the commits of a loop whose command on this machine is gone.
func (g *Git) fetchLeft(ctx context.Context, sb lifecycle.Sandbox) error {
	done := g.Host.ReportSlow("Fetching commits from the sandbox " + sb.Name)
	res, _, err := g.tryLeft(ctx, sb, g.Repo, finalCommit(g.Host.LogsOf(sb)))
	done()
	g.report(res)
	switch {
	case errors.Is(err, lifecycle.ErrNotPrepared):
		err = errUnprepared
	case isHeld(err):
		return heldHint(sb, err)
	}
	if err != nil {
		return fmt.Errorf("commits stay in the sandbox %s: %w", sb.Name, err)
	}
	return nil
}

// tryLeft fetches unless a command of this machine does that.
func (g *Git) tryLeft(ctx context.Context, sb lifecycle.Sandbox, repo *gitsync.Repo, final string) (res gitsync.Result, tip string, err error) {
	if !gitsync.Unfinished(g.Host.StateDir, sb.Name) {
		return res, final, nil
	}
	unlock, err := g.Host.TryLockAgents(sb.Name)
	if err != nil || unlock == nil {
		return res, final, err
	}
	defer unlock()
	if Idle(ctx, g.Driver, sb) {
		res, err = repo.Fetch(ctx, Shell(g.Driver, sb), true)
		return res, "", err
	}
	return repo.Follow(ctx, Shell(g.Driver, sb), final, false)
}

// besideLoop reports whether a loop runs in the sandbox, whose agent may amend the commits of its current run.
func (g *Git) besideLoop(ctx context.Context, sb lifecycle.Sandbox) bool {
	running, err := g.Driver.Dispatches(ctx, sb)
	return err == nil && slices.ContainsFunc(running, func(d lifecycle.Dispatch) bool {
		_, loop := host.LoopCommand(d.Command)
		return loop
	})
}

// fetchBeside fetches while another command may run in the sandbox, whose agent amends commits.
func (g *Git) fetchBeside(ctx context.Context, sb lifecycle.Sandbox) (gitsync.Result, error) {
	res, _, err := g.Repo.Follow(ctx, Shell(g.Driver, sb), finalCommit(g.Host.LogsOf(sb)), false)
	return res, err
}
