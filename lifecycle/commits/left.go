package commits

import (
	"context"
	"errors"
	"fmt"

	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

// A loop goes on without its command on this machine: that was killed, or is on another one. The runs that it
// completes are taken by the commands that serve its session; the rest is fetched by "status".

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

// FetchLeft fetches and reports the commits of a command whose process on this machine is gone.
func FetchLeft(ctx context.Context, h host.Host, l host.Located) error {
	g, err := openRunning(ctx, h, l)
	if g == nil || err != nil {
		return err
	}
	done := h.ReportSlow("Fetching commits from sandbox " + l.Sandbox.Name)
	res, err := g.tryLeft(ctx, l.Sandbox)
	done()
	g.report(res)
	switch {
	case errors.Is(err, lifecycle.ErrNotPrepared):
		err = errUnprepared
	case isHeld(err):
		return heldHint(l.Sandbox, err)
	}
	if err != nil {
		return fmt.Errorf("commits stay in sandbox %s: %w", l.Sandbox.Name, err)
	}
	return nil
}

// OpenLeft opens the clone of a loop whose process on this machine is gone; nil for a sandbox without one.
func OpenLeft(ctx context.Context, h host.Host, l host.Located) (*Git, error) {
	g, err := openRunning(ctx, h, l)
	g.ForLoop()
	return g, err
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
		return nil, fmt.Errorf("fetching commits from sandbox %s: %w", sb.Name, err)
	}
	repo, err := gitsync.Open(wt, sb.Name, h.StateDir)
	if err != nil {
		return nil, err
	}
	i := scanOf(h, l, wt)
	return &Git{Host: h, Driver: l.Backend.Driver, scan: i, Repo: repo.WithGate(i.Incoming(sb.Name)), aside: repo.WithGate(i.incomingAside(sb.Name))}, nil
}

// tryLeft fetches unless a command of this machine does that.
func (g *Git) tryLeft(ctx context.Context, sb lifecycle.Sandbox) (res gitsync.Result, err error) {
	if !gitsync.Unfinished(g.Host.StateDir, sb.Name) {
		return res, nil
	}
	unlock, err := g.Host.TryLockAgents(sb.Name)
	if err != nil || unlock == nil {
		return res, err
	}
	defer unlock()
	if Idle(ctx, g.Driver, sb) {
		return g.Repo.Fetch(ctx, Shell(g.Driver, sb), true)
	}
	res, _, err = g.Repo.Follow(ctx, Shell(g.Driver, sb), "")
	return res, err
}
