package manage

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitrepo/worktrees"
	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/commits"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

// WorktreeRemoval are the options of [RemoveWorktree].
type WorktreeRemoval struct {
	Name string
	// Force removes it even with unmerged work, and stops what runs in its
	// sandbox.
	Force bool
	// DeleteBranch also deletes its branch.
	DeleteBranch bool
	// CredScan is as in [run.Options].
	CredScan string
}

// removal is one call of [RemoveWorktree].
type removal struct {
	WorktreeRemoval
	host  host.Host
	repo  *worktrees.Repository
	tree  worktrees.Tree
	boxes []host.Located
	lost  []string // describes the work that would be lost
}

// RemoveWorktree removes a worktree below .worktrees together with its sandbox,
// whose commits it fetches first. It is an error, and nothing is removed, if that
// would lose work.
func RemoveWorktree(ctx context.Context, h host.Host, opts WorktreeRemoval) error {
	connected := h.Connect()
	wt, err := gitrepo.Detect(ctx, h.Dir, host.AnyScope)
	if err != nil {
		return err
	}
	r := &removal{WorktreeRemoval: opts, host: h}
	if r.repo, err = worktrees.Open(wt); err != nil {
		return err
	}
	unlock, err := h.LockWorktrees(ctx, wt)
	if err != nil {
		return err
	}
	defer unlock()
	if err := r.find(ctx); err != nil {
		return err
	}
	free, err := r.lockSandboxes(ctx, connected)
	defer free()
	if err != nil {
		return err
	}
	if err := r.findLosses(ctx); err != nil {
		return err
	}
	if len(r.lost) > 0 && !r.Force {
		return r.refuse()
	}
	return r.remove(ctx)
}

func (r *removal) find(ctx context.Context) error {
	t, found, err := r.repo.Find(ctx, r.Name)
	switch {
	case err != nil:
		return err
	case !found:
		return hint.Wrap(fmt.Errorf("no worktree %q in %s", r.Name, worktrees.Folder), "list worktrees with %q", "docker ralph worktree ls")
	case t.Current:
		return hint.Wrap(fmt.Errorf("worktree %q is the current directory", r.Name), "change to another directory")
	}
	r.tree = t
	return t.CheckLock()
}

// lockSandboxes finds the worktree's sandboxes, locks them until free is called,
// and fetches their commits.
func (r *removal) lockSandboxes(ctx context.Context, connected func() (host.API, error)) (free func(), err error) {
	var locks []func()
	free = func() {
		for _, unlock := range locks {
			unlock()
		}
	}
	all, err := r.host.Sandboxes(ctx, connected)
	if err != nil {
		err = fmt.Errorf("looking for sandboxes of worktree %q: %w", r.Name, err)
		if !r.Force || ctx.Err() != nil {
			return free, err
		}
		r.host.Warn(err)
	}
	for _, box := range all {
		if box.Sandbox.OtherClient != "" || box.Sandbox.Root != r.tree.Path {
			continue
		}
		if err := box.Backend.Unusable; err != nil {
			if !r.Force {
				return free, hint.Wrap(fmt.Errorf("sandbox %s of worktree %q is unreachable: %w", box.Sandbox.Name, r.Name, err), "remove the worktree with --force")
			}
			r.lost = append(r.lost, fmt.Sprintf("sandbox %s, which is unreachable: %v", box.Sandbox.Name, err))
			continue
		}
		unlock, err := r.host.TryLockSandbox(box.Sandbox.Name)
		if err == nil && unlock == nil {
			err = fmt.Errorf("another command is setting up sandbox %s", box.Sandbox.Name)
		}
		if err != nil {
			return free, err
		}
		locks = append(locks, unlock)
		if err := r.stopBusy(ctx, &box); err != nil {
			return free, err
		}
		if err := r.fetch(ctx, box); err != nil {
			return free, err
		}
		r.boxes = append(r.boxes, box)
	}
	return free, nil
}

// stopBusy stops a sandbox that a command runs in; without Force it is an error.
func (r *removal) stopBusy(ctx context.Context, box *host.Located) error {
	sb, err := box.Backend.Driver.Lookup(ctx, box.Sandbox.Name)
	if err != nil {
		return err
	}
	box.Sandbox = sb
	if sb.State != lifecycle.Running {
		return nil
	}
	busy, err := box.Backend.Driver.Busy(ctx, sb)
	if err != nil || !busy {
		return err
	}
	if !r.Force {
		return hint.Wrap(fmt.Errorf("%s in sandbox %s of worktree %q", activity(ctx, *box), sb.Name, r.Name), "wait for it, or stop it and remove the worktree with --force")
	}
	if err := box.Backend.Driver.Stop(ctx, sb); err != nil {
		return err
	}
	box.Sandbox, err = box.Backend.Driver.Lookup(ctx, sb.Name)
	return err
}

// activity describes the commands that run in a sandbox.
func activity(ctx context.Context, box host.Located) string {
	var commands []string
	running, err := box.Backend.Driver.Dispatches(ctx, box.Sandbox)
	for _, d := range running {
		if ours := len(d.Command) > 1 && strings.HasPrefix(d.Command[1], "_"); len(d.Command) > 0 && !ours {
			words := append([]string{path.Base(d.Command[0])}, d.Command[1:]...)
			commands = append(commands, fmt.Sprintf("%q", strings.Join(words, " ")))
		}
	}
	if err != nil || len(commands) == 0 {
		return "a command is running"
	}
	return strings.Join(commands, " and ") + " is running"
}

// fetch fetches the commits of a sandbox. If that fails, they count as lost.
func (r *removal) fetch(ctx context.Context, box host.Located) error {
	sb, h := box.Sandbox, r.host
	if !sb.Private || gitsync.Saved(h.StateDir, sb.Name) {
		return nil
	}
	err := r.tryFetch(ctx, box)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		r.lost = append(r.lost, fmt.Sprintf("unfetched commits in sandbox %s: %v", sb.Name, err))
	}
	return nil
}

func (r *removal) tryFetch(ctx context.Context, box host.Located) error {
	if r.tree.Missing {
		return errors.New("the worktree's directory is gone")
	}
	wt, err := r.repo.Worktree(ctx, r.tree)
	if err != nil {
		return err
	}
	wt.Scope = box.Sandbox.Scope
	scan := &commits.Scan{Host: r.host, Root: wt.Root, Mode: r.CredScan, Connected: func() (host.API, error) { return box.Backend.API, nil }}
	return commits.FetchAll(ctx, r.host, box, scan, wt)
}

// findLosses finds work that is only in the worktree or its sandboxes.
func (r *removal) findLosses(ctx context.Context) error {
	if !r.tree.Missing {
		s, err := r.repo.Status(ctx, r.tree)
		if err != nil && !r.Force {
			return err
		}
		if n := len(s.Changed); n > 0 {
			r.lost = append(r.lost, fmt.Sprintf("uncommitted changes in %s: %s", host.Count(n, "file"), host.Some(s.Changed)))
		}
	}
	// The fetch may have moved the branch, or HEAD.
	t, found, err := r.repo.Find(ctx, r.Name)
	if err != nil {
		return err
	}
	if found {
		r.tree = t
	}
	unmerged, n, err := r.repo.Unmerged(ctx, r.tree, host.ShownLines)
	if err != nil {
		return err
	}
	if n > 0 {
		r.lost = append(r.lost, r.describe(unmerged, n))
	}
	if r.Force {
		return nil // what is kept is reported at the removal
	}
	for _, box := range r.boxes {
		unmerged, err := commits.UnmergedRefs(ctx, r.repo, box.Sandbox.Name)
		if err != nil {
			return err
		}
		for _, ref := range unmerged {
			r.lost = append(r.lost, fmt.Sprintf("commits of the sandbox that are on no branch: they stay at %s", ref))
		}
	}
	return nil
}

// describe lists unmerged commits, and whether a branch keeps them.
func (r *removal) describe(commits []worktrees.Commit, n int) string {
	var lines []string
	for _, c := range commits {
		lines = append(lines, fmt.Sprintf("%s %q", c.ID, c.Subject))
	}
	what := fmt.Sprintf("%s not merged: %s", host.Count(n, "commit"), strings.Join(lines, ", "))
	if more := n - len(lines); more > 0 {
		what += fmt.Sprintf(" and %d more", more)
	}
	switch {
	case r.tree.Branch == "":
		return what + "; they are on no branch"
	case r.DeleteBranch:
		return what + "; they go with branch " + r.tree.Branch
	default:
		return what + "; they stay on branch " + r.tree.Branch
	}
}

func (r *removal) refuse() error {
	err := fmt.Errorf("worktree %q has unmerged work:\n  %s", r.Name, strings.Join(r.lost, "\n  "))
	return hint.Wrap(err, "commit and merge it, or remove the worktree with --force")
}

// remove removes the sandboxes, the worktree and, with DeleteBranch, the branch.
func (r *removal) remove(ctx context.Context) error {
	for _, line := range r.lost {
		r.host.Report("Warning: the worktree had " + line)
	}
	for _, box := range r.boxes {
		if err := r.removeSandbox(ctx, box); err != nil {
			return err
		}
	}
	if err := r.tree.CheckLock(); err != nil {
		return err
	}
	if err := r.repo.Remove(ctx, r.tree); err != nil {
		return err
	}
	r.host.Report("Removed worktree " + filepath.Join(worktrees.Folder, r.Name))
	if r.DeleteBranch && r.tree.Branch != "" {
		if err := r.repo.DeleteBranch(ctx, r.tree.Branch); err != nil {
			return err
		}
		r.host.Report("Deleted branch " + r.tree.Branch)
	}
	return nil
}

// removeSandbox removes a sandbox and its refs, unless a kept volume needs them.
func (r *removal) removeSandbox(ctx context.Context, box host.Located) error {
	saved := !box.Sandbox.Private || box.Backend.Kind != config.DriverContainer || gitsync.Saved(r.host.StateDir, box.Sandbox.Name)
	if err := r.host.Remove(ctx, box.Backend.Driver, box.Sandbox); err != nil {
		return err
	}
	r.host.Report("Removed sandbox " + box.Sandbox.Name)
	if !saved {
		volume := "ralph-git-" + box.Sandbox.Name
		r.host.Report(fmt.Sprintf("Warning: keeping volume %s: it may have the only copy of commits\nHint: %s", volume, commits.DiscardHint("--all")))
		return nil
	}
	return commits.Forget(ctx, r.host, r.repo, box.Sandbox.Name)
}
