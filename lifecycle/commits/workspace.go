package commits

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitrepo/worktrees"
	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// WantsClone reports whether a sandbox has a clone of the worktree: a container unless the user wants it
// live, and a microVM of sbx if the user wants a clone.
func WantsClone(cfg config.Effective, kind string) bool {
	workspace := cfg.Sandbox.Workspace
	return workspace == config.WorkspaceClone || workspace == config.WorkspaceAuto && kind == config.DriverContainer
}

// CheckClone rejects a clone where it is impossible. sbx clones the repository itself, with the limits of
// docker/sbx-releases#460.
func CheckClone(wt gitrepo.Worktree, cfg config.Effective, kind string) error {
	if !WantsClone(cfg, kind) {
		return nil
	}
	const instead = "or pass --workspace " + config.WorkspaceLive
	switch {
	case kind == config.DriverContainer:
		return nil // see Check
	case kind != config.DriverSbx:
		return hint.Wrap(fmt.Errorf("%s = %q works with the drivers container and sbx only, not %s", config.KeyWorkspace, config.WorkspaceClone, kind), "use one of them, %s", instead)
	case wt.Shallow():
		return hint.Wrap(errors.New("sbx cannot clone a shallow clone"), "run %q, %s", "git fetch --unshallow", instead)
	case wt.Linked():
		return hint.Wrap(errors.New("sbx cannot clone a linked worktree"), "change to the main one, %s, %s", wt.MainRoot, instead)
	case !cfg.Sandbox.Reuse:
		return hint.Wrap(errors.New("with reuse_container = false the sandbox's commits would be lost with it"), "reuse the sandbox, %s", instead)
	default:
		return nil
	}
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

// collect fetches the commits of a clone, which sbx serves as a remote while the sandbox runs.
func collect(ctx context.Context, wt gitrepo.Worktree, sb lifecycle.Sandbox) error {
	ctx, cancel := context.WithTimeout(ctx, FetchTimeout)
	defer cancel()
	return wt.Collect(ctx, "sandbox-"+sb.Name, FetchedRef(sb.Name))
}

// Fetch fetches and reports what a command has committed.
func Fetch(ctx context.Context, h host.Host, g *Git, wt gitrepo.Worktree, sb lifecycle.Sandbox) error {
	if g != nil {
		return g.fetch(ctx, sb)
	}
	if !sb.Private {
		return nil
	}
	if err := collect(ctx, wt, sb); err != nil {
		return fmt.Errorf("commits stay in the sandbox %s: %w", sb.Name, err)
	}
	ref := FetchedRef(sb.Name) + "/" + wt.Scope.Branch
	repo, err := gitsync.Open(wt, sb.Name, h.StateDir)
	if err == nil {
		err = repo.NoteFetched(ctx, wt.Scope.Branch, ref)
	}
	if err != nil {
		return err
	}
	n, err := wt.Ahead(ctx, ref)
	if err != nil || n == 0 {
		return err
	}
	switch path, err := repo.Submodule(ctx, ref); {
	case err != nil:
		return err
	case path != "":
		h.Report(fmt.Sprintf("Warning: the commits at %s add or change the submodule %q: do not merge them or check them out", ref, path))
	default:
		h.Report(fmt.Sprintf("The sandbox has %s missing from your branch: merge with \"git merge %s\"", host.Count(n, "commit"), ref))
	}
	return nil
}

// Save returns a function that fetches the commits of a sandbox before it is removed. It is an
// error if work would be lost.
func Save(h host.Host, at host.Backend, i *Scan, wt gitrepo.Worktree) func(context.Context, lifecycle.Sandbox) error {
	driver := at.Driver
	return func(ctx context.Context, sb lifecycle.Sandbox) error {
		if !sb.Private {
			return nil
		}
		if at.Kind == config.DriverContainer {
			return savePrivateGit(ctx, h, at.Driver, i, wt, sb)
		}
		if sb.State != lifecycle.Running {
			if err := driver.Start(ctx, sb); err != nil {
				return err
			}
		}
		lost := fmt.Errorf("the sandbox %s cannot be removed without losing work in its own clone of the repository", sb.Name)
		if err := collect(ctx, wt, sb); err != nil {
			return hint.Wrap(fmt.Errorf("%w: %w", lost, err), "%s", DiscardHint(sb.Name))
		}
		var out bytes.Buffer
		switch err := lifecycle.RunService(ctx, driver, sb, nil, &lifecycle.Limited{To: &out, Left: 4096}, "git", "status", "--porcelain"); {
		case errors.Is(err, lifecycle.ErrNotPrepared):
			return nil // nothing has ever run in it
		case err != nil:
			return fmt.Errorf("%w: %w", lost, err)
		case strings.TrimSpace(out.String()) != "":
			return hint.Wrap(fmt.Errorf("%w: there are changes that are not committed", lost), "%s", DiscardHint(sb.Name))
		}
		h.Report("The sandbox's commits are at " + FetchedRef(sb.Name))
		return nil
	}
}
