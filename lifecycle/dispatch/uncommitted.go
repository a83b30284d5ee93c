package dispatch

import (
	"context"
	"fmt"

	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/hint"
)

// checkUncommitted looks at the user's uncommitted changes before anything is made:
// --require-clean refuses them, and an agent that has the user's own git directory
// can commit them.
func (j *job) checkUncommitted(ctx context.Context) error {
	direct := !j.spec.Private && IsLoop(j.opts.Command)
	if !direct && !j.opts.RequireClean {
		return nil
	}
	repo, err := gitsync.Open(j.wt, j.spec.Name, j.StateDir)
	if err != nil {
		return err
	}
	changed, err := repo.Uncommitted(ctx)
	switch {
	case err != nil && j.opts.RequireClean:
		return err
	case err != nil:
		j.report(fmt.Sprintf("Warning: %v", err))
	case len(changed) == 0:
	case j.opts.RequireClean:
		err := fmt.Errorf("%s has uncommitted changes of %s: %s", j.wt.Root, number(len(changed), "file"), some(changed))
		return hint.Wrap(err, "commit or stash them, e.g. with \"git stash --include-untracked\"")
	default:
		j.report(fmt.Sprintf("Warning: the agent has your git directory and can commit your uncommitted changes of %s: %s", number(len(changed), "file"), some(changed)))
	}
	return nil
}

// reportUncommitted says, before an agent starts, that files of the user's are left
// out of its commits.
func (h Host) reportUncommitted(users []string) {
	if len(users) > 0 {
		h.report(fmt.Sprintf("Your uncommitted changes of %s are left out of the sandbox's commits: %s", number(len(users), "file"), some(users)))
	}
}
