package worktrees

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/hint"
)

// Remove removes a worktree with everything in it, unless it is locked. Its branch stays.
func (r *Repository) Remove(ctx context.Context, t Tree) error {
	if err := t.CheckLock(); err != nil {
		return err
	}
	if _, err := r.git.Run(ctx, "worktree", "remove", "--force", "--", t.Path); err != nil {
		return fmt.Errorf("removing worktree %s: %w", t.Path, err)
	}
	return nil
}

// CheckLock returns an error for a locked worktree.
func (t Tree) CheckLock() error {
	if !t.Locked {
		return nil
	}
	why := ""
	if t.Why != "" {
		why = fmt.Sprintf(" (%q)", t.Why)
	}
	return hint.Wrap(fmt.Errorf("worktree %s is locked%s", t.Path, why), "unlock it with %q", "git worktree unlock "+t.Path)
}

// DeleteBranch deletes a branch, merged or not, unless it is checked out.
func (r *Repository) DeleteBranch(ctx context.Context, branch string) error {
	if _, err := r.git.Run(ctx, "branch", "--quiet", "-D", "--", branch); err != nil {
		return fmt.Errorf("deleting branch %s: %w", branch, err)
	}
	return nil
}

// Forget deletes the refs below a prefix, except for some.
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
