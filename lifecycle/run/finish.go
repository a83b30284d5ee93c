package run

import (
	"context"
	"errors"

	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/commits"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

// continues reports whether an error means that a command may still run.
func continues(err error) bool {
	return errors.Is(err, lifecycle.ErrDetached) || errors.Is(err, lifecycle.ErrDisconnected)
}

// finish fetches the commits of a command, and removes its sandbox if it is ephemeral.
func finish(ctx context.Context, h host.Host, r Ready, res Result) (int, error) {
	sb, err := res.Sandbox, res.Err
	var unsaved error
	if err == nil && r.opts.Command != host.TaskCommand {
		watched, stop := watchConnection(ctx, r.Driver, sb.Name, sendTimeout)
		unsaved = givenUp(watched, commits.Fetch(watched, h, r.git, r.wt, sb))
		stop()
	}
	reportEnded(ctx, h, r.Driver, sb, res.Code, errors.Join(err, unsaved))
	if r.spec.Ephemeral && sb.Name != "" && !continues(err) && unsaved == nil {
		fetched := err == nil || r.git != nil && !gitsync.Unfinished(h.StateDir, sb.Name)
		err = errors.Join(err, discard(ctx, h, r.Target, sb, fetched))
	}
	if unsaved != nil && res.Code != 0 {
		h.Warn(unsaved) // the exit code is more important
		return res.Code, err
	}
	return res.Code, errors.Join(unsaved, err)
}
