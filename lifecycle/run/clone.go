package run

import (
	"context"
	"errors"
	"slices"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/mirror"
)

// enterClone moves the backlog into a clone, and the logs that a resumed loop needs. It is an
// error if a live sandbox would use a backlog that is in a clone.
func enterClone(ctx context.Context, h host.Host, r Ready, sb lifecycle.Sandbox, resumed bool) error {
	backlog := r.backlog(h)
	if !sb.Clone {
		elsewhere, err := backlog.InSandbox(ctx)
		if err == nil && elsewhere {
			err = hint.Wrap(errors.New("the backlog is in a clone of this worktree"), "bring it back with %q", "docker ralph clean "+sb.Name)
		}
		return err
	}
	if err := r.git.Repo.SetReleased(ctx, false); err != nil {
		return err
	}
	if err := backlog.MoveIn(ctx, r.Driver, sb); err != nil {
		return err
	}
	if resumed || host.IsLoop(r.opts.Command) && slices.Contains(r.opts.Args, "--resume") {
		return mirror.Push(ctx, h, r.Driver, sb)
	}
	return nil
}
