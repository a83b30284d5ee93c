package commits

import (
	"context"
	"fmt"
	"time"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitrepo/worktrees"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// WantsClone reports whether a sandbox has a clone of the worktree: unless the user wants it live, or the
// driver can only do that.
func WantsClone(cfg config.Effective, kind string) bool {
	workspace := cfg.Sandbox.Workspace
	return workspace == config.WorkspaceClone || workspace == config.WorkspaceAuto && kind != config.DriverDockerSandbox
}

// CheckClone rejects a clone where the driver cannot make one.
func CheckClone(cfg config.Effective, kind string) error {
	if kind != config.DriverDockerSandbox || !WantsClone(cfg, kind) {
		return nil
	}
	return hint.Wrap(fmt.Errorf("%s = %q works with the drivers container and sbx only, not %s", config.KeyWorkspace, config.WorkspaceClone, kind), "use one of them, or pass --workspace %s", config.WorkspaceLive)
}

// FetchTimeout is how long fetching the sandbox's commits may take.
const FetchTimeout = 5 * time.Minute

// FetchedRef returns the ref in the user's repository for the commits of a sandbox.
func FetchedRef(name string) string { return "refs/ralph/" + name }

// ForgetRefs deletes the refs of a sandbox that was removed, and reports those that stay because
// their commits are on no branch. A repository that is gone has none.
func ForgetRefs(ctx context.Context, h host.Host, sb lifecycle.Sandbox) error {
	wt, err := worktreeOf(ctx, h, sb)
	if err != nil {
		return ctx.Err()
	}
	repo, err := worktrees.Open(wt)
	if err != nil {
		return err
	}
	stray, err := StrayRefs(ctx, repo, sb.Name)
	if err != nil {
		return err
	}
	for _, ref := range stray {
		h.Report(fmt.Sprintf("Keeping %s: it has commits of the sandbox that are on no branch\nHint: when you do not need them, delete it with \"git update-ref -d %[1]s\"", ref))
	}
	return repo.Forget(ctx, FetchedRef(sb.Name), stray)
}

// StrayRefs returns the refs of a sandbox whose commits are on no branch.
func StrayRefs(ctx context.Context, repo *worktrees.Repository, name string) ([]string, error) {
	return repo.Stray(ctx, FetchedRef(name), "@base", "@merged")
}

// Save returns a function that fetches the commits of a sandbox before it is removed. It is an
// error if work would be lost.
func Save(h host.Host, at host.Backend, i *Scan, wt gitrepo.Worktree) func(context.Context, lifecycle.Sandbox) error {
	return func(ctx context.Context, sb lifecycle.Sandbox) error {
		if !sb.Private {
			return nil
		}
		return saveClone(ctx, h, at.Driver, i, wt, sb)
	}
}
