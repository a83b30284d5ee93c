package host

import (
	"context"
	"errors"
	"sync"

	"github.com/docker-ralph/docker-ralph/gitrepo"
)

// WorkTree finds the worktree of the current directory. Without a branch or origin, its scope is
// empty.
func (h Host) WorkTree(ctx context.Context) (wt gitrepo.Worktree, inside bool, err error) {
	wt, err = gitrepo.Detect(ctx, h.Dir, h.Getenv)
	switch {
	case errors.Is(err, gitrepo.ErrNotRepository):
		return gitrepo.Worktree{}, false, nil
	case err == nil:
		return wt, true, nil
	}
	wt, anyErr := gitrepo.Detect(ctx, h.Dir, AnyScope)
	if anyErr != nil {
		return gitrepo.Worktree{}, false, err
	}
	wt.Scope = gitrepo.Scope{}
	return wt, true, nil
}

// Once makes a connection that can be requested several times.
func Once(connected func() (API, error)) func() (API, error) { return sync.OnceValues(connected) }

// AnyScope accepts a worktree without a branch or an origin.
func AnyScope(name string) string {
	return map[string]string{"RALPH_SCOPE_REPO": "any", "RALPH_SCOPE_BRANCH": "any"}[name]
}
