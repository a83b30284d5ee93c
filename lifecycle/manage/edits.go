package manage

import (
	"context"
	"fmt"
	"os/exec"

	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle/commits"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

// Diff returns a git command that shows what is not committed in a clone; nil if there is
// nothing. Without a name it is the sandbox of the current worktree and branch. The options are those
// of git diff.
func Diff(ctx context.Context, h host.Host, names []string, options ...string) (*exec.Cmd, error) {
	repo, edits, err := editsOf(ctx, h, names)
	if err != nil || edits == nil {
		return nil, err
	}
	return repo.DiffCommand(ctx, edits, options...)
}

// Apply brings what is not committed in a clone into the user's files, as changes that are not
// committed either, and returns their paths.
func Apply(ctx context.Context, h host.Host, names []string) (paths []string, err error) {
	repo, edits, err := editsOf(ctx, h, names)
	if err != nil || edits == nil {
		return nil, err
	}
	return edits.Paths, repo.ApplyEdits(ctx, edits)
}

func editsOf(ctx context.Context, h host.Host, names []string) (*gitsync.Repo, *gitsync.Edits, error) {
	at, err := h.Here(ctx)
	if err != nil && len(names) == 0 {
		return nil, nil, err
	}
	boxes, err := h.Select(ctx, at, names)
	if err != nil {
		return nil, nil, err
	}
	switch len(boxes) {
	case 0:
		return nil, nil, host.ErrNoSandbox
	case 1:
		if err := boxes[0].Backend.Unusable; err != nil {
			return nil, nil, err
		}
		return commits.FetchEdits(ctx, h, boxes[0])
	}
	return nil, nil, hint.Wrap(fmt.Errorf("this worktree and branch have %d sandboxes", len(boxes)), "name one of them, see %q", "docker ralph ls")
}
