package commits

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"

	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// An agent can break its git directory: HEAD, refs, and locks that it leaves behind. A
// repair replaces all of it, so it needs the agent lock and a sandbox without commands: another
// one could be committing.

// IsBroken reports whether an agent has broken its git directory.
func IsBroken(err error) bool {
	_, broken := errors.AsType[*gitsync.BrokenError](err)
	return broken
}

// errStillBusy says that a broken git directory is not repaired because another command runs in
// the sandbox.
var errStillBusy = errors.New("sandbox in use: not repaired")

// IsStillBusy reports whether a command may go on after [Git.AwaitIdle].
func IsStillBusy(err error) bool { return errors.Is(err, errStillBusy) }

func stillBusy(sb lifecycle.Sandbox, broken error) error {
	return hint.Wrap(fmt.Errorf("%w: %w", broken, errStillBusy), "wait for it, or stop it with %q", "docker ralph stop "+sb.Name)
}

// AwaitIdle waits until no other command runs in the sandbox.
func (g *Git) AwaitIdle(ctx context.Context, sb lifecycle.Sandbox) error {
	g.Host.Report(fmt.Sprintf("Waiting for other commands in sandbox %s before repairing its git directory", sb.Name))
	for {
		unlock, err := g.Host.TryLockAgents(sb.Name)
		if err != nil {
			return err
		}
		if unlock != nil {
			unlock()
			if busy, err := g.Driver.Busy(ctx, sb); err != nil || !busy {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(host.PollInterval):
		}
	}
}

// Idle reports that no process that could commit runs in a sandbox.
func Idle(ctx context.Context, driver lifecycle.Driver, sb lifecycle.Sandbox) bool {
	busy, err := driver.Busy(ctx, sb)
	return err == nil && !busy
}

// fetchOrRepair fetches. If the sandbox is idle and its git directory broken, it repairs that.
func (g *Git) fetchOrRepair(ctx context.Context, sb lifecycle.Sandbox, idle bool) (gitsync.Result, error) {
	res, err := g.Repo.Fetch(ctx, Shell(g.Driver, sb), idle)
	if !idle || !IsBroken(err) {
		return res, err
	}
	if res, err = g.repair(ctx, sb, err); err != nil {
		return res, err
	}
	g.add(res)
	return g.Repo.Fetch(ctx, Shell(g.Driver, sb), idle)
}

// repair repairs the git directory. [Git.reportRepairs] reports it.
func (g *Git) repair(ctx context.Context, sb lifecycle.Sandbox, broken error) (gitsync.Result, error) {
	res, lost, err := g.Repo.Repair(ctx, Shell(g.Driver, sb))
	if err != nil {
		return res, err
	}
	note := fmt.Sprintf("Warning: %v; it was restored from your repository", broken)
	if lost != nil {
		note += fmt.Sprintf(", without unfetched commits (%v): its old contents are in .git/%s in the sandbox", lost, gitsync.LostFolder)
	}
	g.repairs = append(g.repairs, note)
	return res, nil
}
