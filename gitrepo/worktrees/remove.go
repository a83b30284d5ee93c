package worktrees

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Remove removes a work tree with everything in it, and what git knows of it.
// Its branch stays. The caller has made sure that nothing is lost. One that is
// locked is not removed.
func (r *Repository) Remove(ctx context.Context, t Tree) error {
	if err := t.CheckLock(); err != nil {
		return err
	}
	if _, err := r.git.Run(ctx, "worktree", "remove", "--force", "--", t.Path); err != nil {
		return fmt.Errorf("removing the worktree %s: %w", t.Path, err)
	}
	return nil
}

// CheckLock tells what is to be done about a work tree that is locked.
func (t Tree) CheckLock() error {
	if !t.Locked {
		return nil
	}
	why := ""
	if t.Why != "" {
		why = fmt.Sprintf(" (%q)", t.Why)
	}
	return fmt.Errorf("the worktree %s is locked%s: if it may go, unlock it with \"git worktree unlock %s\"", t.Path, why, t.Path)
}

// DeleteBranch deletes a branch, merged or not. git refuses one that is checked
// out.
func (r *Repository) DeleteBranch(ctx context.Context, branch string) error {
	if _, err := r.git.Run(ctx, "branch", "--quiet", "-D", "--", branch); err != nil {
		return fmt.Errorf("deleting the branch %s: %w", branch, err)
	}
	return nil
}

// Forget deletes the refs below a prefix, except for those that are to be kept.
func (r *Repository) Forget(ctx context.Context, prefix string, keep []string) error {
	out, err := r.git.Run(ctx, "for-each-ref", "--format=%(refname)", prefix+"/")
	for _, ref := range strings.Fields(out) {
		if err == nil && !slices.Contains(keep, ref) {
			_, err = r.git.Run(ctx, "update-ref", "-d", ref)
		}
	}
	if err != nil {
		return fmt.Errorf("deleting %s: %w", prefix, err)
	}
	return nil
}
