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
// user of sandbox.git = "direct", because an agent can commit them.
func CheckUncommitted(ctx context.Context, h host.Host, wt gitrepo.Worktree, spec lifecycle.Spec, command string, requireClean bool) error {
	direct := !spec.Private && host.IsLoop(command)
	if !direct && !requireClean {
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
		h.Report(fmt.Sprintf("Warning: %v", err))
	case len(changed) == 0:
	case requireClean:
		err := fmt.Errorf("%s has uncommitted changes in %s: %s", wt.Root, host.Count(len(changed), "file"), host.Some(changed))
		return hint.Wrap(err, "commit or stash them, e.g. with \"git stash --include-untracked\"")
	default:
		h.Report(fmt.Sprintf("Warning: the agent has your git directory and can commit your uncommitted changes in %s: %s", host.Count(len(changed), "file"), host.Some(changed)))
	}
	return nil
}

// reportUncommitted reports, before an agent starts, files that are excluded from its
// commits, or that it does not have.
func reportUncommitted(h host.Host, sb lifecycle.Sandbox, users []string) {
	switch {
	case len(users) == 0:
	case sb.Clone:
		h.Report(fmt.Sprintf("Warning: the sandbox does not have your uncommitted changes in %s: %s\nHint: commit them, or pass --with-changes", host.Count(len(users), "file"), host.Some(users)))
	default:
		h.Report(fmt.Sprintf("Your uncommitted changes in %s are left out of the sandbox's commits: %s", host.Count(len(users), "file"), host.Some(users)))
	}
}
