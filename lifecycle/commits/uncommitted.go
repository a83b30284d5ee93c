package commits

import (
	"context"
	"fmt"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// CheckUncommitted rejects uncommitted changes with --require-clean, and reports them to the
// user of a live workspace, because an agent can commit them.
func CheckUncommitted(ctx context.Context, h host.Host, wt gitrepo.Worktree, spec lifecycle.Spec, command string, requireClean bool) error {
	live := !spec.Private && host.IsLoop(command)
	if !live && !requireClean {
		return nil
	}
	repo, err := gitsync.Open(wt, spec.Name, h.StateDir)
	if err != nil {
		return err
	}
	changed, err := repo.Uncommitted(ctx)
	switch {
	case err != nil && requireClean:
		return err
	case err != nil:
		h.Warn(err)
	case len(changed) == 0:
	case requireClean:
		err := fmt.Errorf("%s has uncommitted changes in %s: %s", wt.Root, host.Count(len(changed), "file"), host.Some(changed))
		return hint.Wrap(err, "commit or stash them, e.g. with \"git stash --include-untracked\"")
	default:
		h.Report(fmt.Sprintf("Warning: the agent works on your files and can commit your uncommitted changes in %s: %s", host.Count(len(changed), "file"), host.Some(changed)))
	}
	return nil
}

// reportUncommitted reports, before an agent starts, changes that it does not have.
func reportUncommitted(h host.Host, users []string) {
	if len(users) > 0 {
		h.Report(fmt.Sprintf("Warning: the sandbox does not have your uncommitted changes in %s: %s\nHint: commit them, or pass --with-changes", host.Count(len(users), "file"), host.Some(users)))
	}
}
