package commits

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/wire"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// A loop decides inside its sandbox how it has ended. For the user it is complete only once its
// commits are on the user's branch: what the last sync has left out is recorded by gitsync, and all
// that describes an end joins both here.

// UnmergedError says that the user's branch does not have all commits of a loop.
type UnmergedError struct {
	gitsync.Unmerged
	// Err is the reason; nil if the user has read it.
	Err error
}

func (e *UnmergedError) Error() string {
	if e.Err != nil {
		return e.Err.Error()
	}
	return fmt.Sprintf("commits of the loop are not on your branch %s, but at %s", e.Branch, e.Ref)
}

// NewUnmergedError returns the error with the reason and what to do, for a command that has not
// reported them.
func NewUnmergedError(u gitsync.Unmerged) *UnmergedError {
	cause := errors.New(u.Why)
	for _, text := range slices.Backward(u.Hints) {
		cause = hint.Wrap(cause, "%s", text)
	}
	return &UnmergedError{Unmerged: u, Err: cause}
}

// Unwrap returns the cause.
func (e *UnmergedError) Unwrap() error { return e.Err }

// UnmergedOf returns what the last sync with a sandbox has left out of the user's branch, unless the user has
// merged it since; nil for nothing. It needs no engine.
func UnmergedOf(ctx context.Context, h host.Host, sb lifecycle.Sandbox) *gitsync.Unmerged {
	u := gitsync.UnmergedCommits(h.StateDir, sb.Name)
	if u != nil && u.Commit != "" {
		if lacks, err := lacks(ctx, h, sb, u.Branch, u.Commit); err == nil && !lacks {
			return nil
		}
	}
	return u
}

// lacks reports whether a branch does not have a commit.
func lacks(ctx context.Context, h host.Host, sb lifecycle.Sandbox, branch, commit string) (bool, error) {
	wt, err := worktreeOf(ctx, h, sb)
	if err != nil {
		return false, err
	}
	return gitsync.Lacks(ctx, wt, branch, commit)
}

// UnmergedBy returns what the user's branch lacks of the latest loop of a sandbox; nil for nothing,
// and for one that runs.
func UnmergedBy(ctx context.Context, h host.Host, sb lifecycle.Sandbox, loop runlog.Loop) *gitsync.Unmerged {
	if loop.Ended.IsZero() {
		return nil
	}
	return UnmergedOf(ctx, h, sb)
}

// EndOf returns how the latest loop of a sandbox has ended for the user. One whose commits are not on
// the user's branch has not succeeded, whatever its log says. Another failure is more important.
func EndOf(ctx context.Context, h host.Host, sb lifecycle.Sandbox, loop runlog.Loop) runlog.Loop {
	u := UnmergedBy(ctx, h, sb, loop)
	if u == nil {
		return loop
	}
	why := termsafe.Line(u.Why)
	if loop.Error != "" {
		why = loop.Error + "; " + why
	}
	loop.Error = why
	if loop.ExitCode == 0 {
		loop.Stop, loop.ExitCode = wire.StopUnmerged, wire.ExitUnmerged
	}
	return loop
}
