package run

import (
	"context"
	"errors"
	"time"

	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/commits"
	"github.com/docker-ralph/docker-ralph/lifecycle/container/engine"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/wire"
)

// continues reports whether an error means that a command may still run.
func continues(err error) bool {
	return errors.Is(err, lifecycle.ErrDetached) || errors.Is(err, lifecycle.ErrDisconnected)
}

// fetchTries is how often a fetch is tried while the engine answers.
const fetchTries = 3

// fetch fetches the commits of a command that has ended. It waits for an engine that does not
// answer until it is interrupted.
func fetch(ctx context.Context, h host.Host, r Ready, sb lifecycle.Sandbox) error {
	lasting, end := context.WithoutCancel(ctx), time.Now().Add(grace(r.Driver))
	for tries := 1; ; tries++ {
		watched, stop := watchConnection(lasting, r.Driver, sb.Name, sendTimeout)
		err := givenUp(watched, r.git.Fetch(watched, sb))
		stop()
		if !engine.ConnectionLost(err) {
			return err
		}
		away, answers := awaitEngine(ctx, h, r.Driver, sb.Name, end, func() bool { return false })
		switch {
		case !answers || !away && tries >= fetchTries:
			return err
		case away:
			h.Report("Reconnected: fetching commits")
			tries = 0
		}
	}
}

// finish fetches the commits of a command, and removes its sandbox if it is ephemeral.
func finish(ctx context.Context, h host.Host, r Ready, res Result) (int, error) {
	sb, err := res.Sandbox, res.Err
	var unsaved, unmerged error
	if err == nil {
		unsaved = fetch(ctx, h, r, sb)
		unmerged = unmergedError(ctx, h, sb, unsaved)
		lasting := context.WithoutCancel(ctx)                                    // an interrupt has ended the command
		if unsaved == nil && !host.IsLoop(r.opts.Command) && !r.spec.Ephemeral { // whose changes are saved
			r.git.ReportEdits(lasting, sb)
		}
		if res.Code != 0 && host.IsLoop(r.opts.Command) {
			r.git.HintIgnored(lasting, sb)
		}
	}
	reportEnded(ctx, h, r.Driver, sb, res.Code, errors.Join(err, unsaved))
	if r.spec.Ephemeral && sb.Name != "" && !continues(err) && unsaved == nil {
		fetched := err == nil || r.git != nil && !gitsync.Unfinished(h.StateDir, sb.Name)
		err = errors.Join(err, discard(ctx, h, r.Target, sb, fetched))
	}
	switch {
	case unsaved != nil && res.Code != 0:
		h.Warn(unsaved) // the exit code is more important
	case unmerged != nil && res.Code == 0 && err == nil && host.IsLoop(r.opts.Command):
		return wire.ExitUnmerged, unmerged
	default:
		err = errors.Join(unsaved, err)
	}
	return res.Code, err
}

// unmergedError returns the error for commits that are not on the user's branch after the last
// fetch, which has failed with unsaved; nil if there are none.
func unmergedError(ctx context.Context, h host.Host, sb lifecycle.Sandbox, unsaved error) error {
	u := commits.UnmergedOf(context.WithoutCancel(ctx), h, sb)
	switch {
	case unsaved != nil:
		return &commits.UnmergedError{Unmerged: gitsync.Unmerged{Branch: sb.Scope.Branch}, Err: unsaved}
	case u != nil:
		return &commits.UnmergedError{Unmerged: *u}
	}
	return nil
}

// unpin lets a microVM stop that was kept awake for a loop, unless another command uses it.
func unpin(ctx context.Context, h host.Host, r Ready, sb lifecycle.Sandbox) {
	d, ok := r.Driver.(lifecycle.Pinner)
	if !ok || !host.IsLoop(r.opts.Command) || sb.Name == "" || sb.Ephemeral {
		return
	}
	if done, err := r.use.Exclude(); err == nil {
		defer done()
		if err := d.Unpin(context.WithoutCancel(ctx), sb); err != nil {
			h.Warn(err)
		}
	}
}
