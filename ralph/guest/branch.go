package guest

import (
	"context"
	"fmt"

	"github.com/docker-ralph/docker-ralph/ralph/branch"
)

// runBranch checks a branch out again in the current directory, which is the root
// of a worktree, and prints what that took.
func runBranch(ctx context.Context, out streams, args []string) error {
	if len(args) != 1 {
		return errUsage
	}
	notes, err := branch.Of(ctx, "", args[0]).Restore(ctx)
	for _, note := range notes {
		_, _ = fmt.Fprintln(out.stdout, note)
	}
	return err
}
