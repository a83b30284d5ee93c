package commits

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitrepo/worktrees"
	"github.com/docker-ralph/docker-ralph/gitsync/refname"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
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
	return Forget(ctx, h, repo, sb.Name)
}

// Forget is as [ForgetRefs], for a sandbox of a known repository.
func Forget(ctx context.Context, h host.Host, repo *worktrees.Repository, name string) error {
	kept, err := UnmergedRefs(ctx, repo, name)
	if err != nil {
		return err
	}
	for _, ref := range kept {
		reportKept(h, ref, "git update-ref -d "+ref)
	}
	for _, prefix := range setAside(name) { // a night can leave many
		refs, err := repo.Stray(ctx, prefix, nil)
		if err != nil {
			return err
		}
		if len(refs) > 0 {
			reportKept(h, fmt.Sprintf("%s (%s)", prefix, host.Count(len(refs), "ref")),
				fmt.Sprintf("git for-each-ref --format='delete %%(refname)' %s | git update-ref --stdin", prefix))
		}
		kept = append(kept, refs...)
	}
	return repo.Forget(ctx, FetchedRef(name), kept)
}

// reportKept reports refs that stay, and the command that deletes them.
func reportKept(h host.Host, refs, command string) {
	h.Report(fmt.Sprintf("Keeping %s: commits of the sandbox that are on no branch\nHint: when you do not need them, run %q", refs, command))
}

// setAside returns the prefixes of the refs of a sandbox that are meant to stay: failed attempts, and what was undone.
func setAside(name string) []string {
	return []string{FetchedRef(name) + "/" + strings.TrimSuffix(refname.Attempts, "/"), FetchedRef(name) + "/" + strings.TrimSuffix(refname.Undone, "/")}
}

// UnmergedRefs returns the refs of a sandbox with commits that the user may want to merge: they are on no branch, of no failed
// attempt, and were not undone.
func UnmergedRefs(ctx context.Context, repo *worktrees.Repository, name string) ([]string, error) {
	return repo.Stray(ctx, FetchedRef(name), setAside(name), "@base", refname.Merged)
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
