package host

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitrepo/worktrees"
)

// Worktree is one below .worktrees that a command is to run in.
type Worktree struct {
	// Name is what it is called; empty for eight random letters and digits.
	Name string
	// Branch is checked out in a new one. If it is empty the user is asked, and
	// the name is the answer where nobody can be.
	Branch string
}

// AddWorktree makes sure that there is such a worktree, and returns its path.
func AddWorktree(ctx context.Context, h Host, w Worktree) (path string, err error) {
	return h.addWorktree(ctx, w, func() error { return nil })
}

// addWorktree calls check before it makes one.
func (h Host) addWorktree(ctx context.Context, w Worktree, check func() error) (path string, err error) {
	if w.Name != "" {
		if err := worktrees.CheckName(w.Name); err != nil {
			return "", err
		}
	}
	wt, err := gitrepo.Detect(ctx, h.Dir, AnyScope)
	if err != nil {
		return "", err
	}
	repo, err := worktrees.Open(wt)
	if err != nil {
		return "", err
	}
	w.Name = cmp.Or(w.Name, strings.ToLower(rand.Text()[:8]))
	if path, err = repo.Path(w.Name); err != nil {
		return "", err
	}
	t, found, err := FindWorktree(ctx, repo, w)
	if err != nil { // another command may be making it right now
		unlock, lockErr := h.LockWorktrees(ctx, wt)
		if lockErr != nil {
			return "", lockErr
		}
		t, found, err = FindWorktree(ctx, repo, w)
		unlock()
	}
	if err != nil || found {
		return path, err
	}
	if err := check(); err != nil {
		return "", err
	}
	if w.Branch, err = h.branchFor(ctx, w, t); err != nil {
		return "", err
	}
	unlock, err := h.LockWorktrees(ctx, wt)
	if err != nil {
		return "", err
	}
	defer unlock()
	// Another command may have made it in the meantime.
	if _, found, err = FindWorktree(ctx, repo, w); err != nil || found {
		return path, err
	}
	return path, h.makeWorktree(ctx, repo, w)
}

// FindWorktree finds a worktree that can be used as it is. If its folder is gone, it is
// not there, and t is what git knows of it.
func FindWorktree(ctx context.Context, repo *worktrees.Repository, w Worktree) (t worktrees.Tree, found bool, err error) {
	t, found, err = repo.Find(ctx, w.Name)
	if err != nil || !found || t.Missing {
		return t, false, err
	}
	if _, err := repo.Worktree(ctx, t); err != nil {
		return t, false, err
	}
	return t, true, useAgain(t, w)
}

func (h Host) makeWorktree(ctx context.Context, repo *worktrees.Repository, w Worktree) error {
	t, created, err := repo.Add(ctx, w.Name, cmp.Or(w.Branch, w.Name))
	if err != nil {
		return err
	}
	branch := "the branch " + t.Branch
	if created {
		branch = "the new branch " + t.Branch
	}
	h.Report(fmt.Sprintf("Created the worktree %s on %s", filepath.Join(worktrees.Folder, w.Name), branch))
	return nil
}

// branchFor returns the branch for a worktree that is about to be made: the one
// that was given, or that it had before its folder was removed, or that the user
// says.
func (h Host) branchFor(ctx context.Context, w Worktree, was worktrees.Tree) (string, error) {
	if branch := cmp.Or(w.Branch, was.Branch); branch != "" || h.Ask == nil {
		return branch, nil
	}
	answer, err := h.Ask(ctx, fmt.Sprintf("Branch name (press Enter to use '%s'): ", w.Name))
	return strings.TrimSpace(answer), err
}

// useAgain refuses a worktree that is there with another branch than the one
// that is wanted.
func useAgain(t worktrees.Tree, w Worktree) error {
	if w.Branch == "" || w.Branch == t.Branch {
		return nil
	}
	on := "on no branch"
	if t.Branch != "" {
		on = fmt.Sprintf("on branch %q", t.Branch)
	}
	return fmt.Errorf("the worktree %q exists already, %s, not on %q: use it without --branch-name, or choose another name", w.Name, on, w.Branch)
}

// Into is the host with the current directory in a worktree, if one is wanted.
// In a repository without a scope none is made.
func (h Host) Into(ctx context.Context, w *Worktree) (Host, error) {
	if w == nil {
		return h, nil
	}
	dir, err := h.addWorktree(ctx, *w, func() error {
		_, err := gitrepo.Detect(ctx, h.Dir, func(name string) string {
			if name == "RALPH_SCOPE_BRANCH" {
				return "any"
			}
			return h.Getenv(name)
		})
		return err
	})
	if err != nil {
		return h, err
	}
	h.Dir = dir
	return h, nil
}

// LockWorktrees keeps two commands from adding or removing worktrees of one
// repository at the same time.
func (h Host) LockWorktrees(ctx context.Context, wt gitrepo.Worktree) (unlock func(), err error) {
	sum := sha256.Sum256([]byte(wt.CommonDir))
	lock, err := h.LockFile(hex.EncodeToString(sum[:6]) + ".worktrees")
	if err != nil {
		return nil, err
	}
	if _, err := lock.TryLockContext(ctx, 20*time.Millisecond); err != nil {
		return nil, fmt.Errorf("locking %s: %w", lock.Path(), err)
	}
	return func() { _ = lock.Close() }, nil
}

// WorktreeNames returns the names of the worktrees below .worktrees of the
// repository that a directory is in.
func WorktreeNames(ctx context.Context, dir string) ([]string, error) {
	repo, err := OpenRepository(ctx, dir)
	if err != nil {
		return nil, err
	}
	trees, err := repo.List(ctx)
	var names []string
	for _, t := range trees {
		if t.Name != "" {
			names = append(names, t.Name)
		}
	}
	return names, err
}

// Branches returns the branches of the repository that a directory is in.
func Branches(ctx context.Context, dir string) ([]string, error) {
	repo, err := OpenRepository(ctx, dir)
	if err != nil {
		return nil, err
	}
	return repo.Branches(ctx)
}

// OpenRepository opens the repository that a directory is in.
func OpenRepository(ctx context.Context, dir string) (*worktrees.Repository, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("finding the current directory: %w", err)
	}
	wt, err := gitrepo.Detect(ctx, dir, AnyScope)
	if err != nil {
		return nil, err
	}
	return worktrees.Open(wt)
}
