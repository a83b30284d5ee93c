package host

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitrepo/worktrees"
	"github.com/docker-ralph/docker-ralph/hint"
)

// Worktree selects a worktree below .worktrees for a command.
type Worktree struct {
	// Name is its name; empty for eight random letters and digits.
	Name string
	// Branch is checked out in a new one. If it is empty, the user is prompted, and the
	// default is the name.
	Branch string
}

// AddWorktree creates a worktree, unless it exists, and returns its path.
func AddWorktree(ctx context.Context, h Host, w Worktree) (path string, err error) {
	return h.addWorktree(ctx, w, func() error { return nil })
}

// addWorktree calls check before it creates one.
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
	if err != nil { // another command may be creating it
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
	// Another command may have created it meanwhile.
	if _, found, err = FindWorktree(ctx, repo, w); err != nil || found {
		return path, err
	}
	return path, h.createWorktree(ctx, repo, w)
}

// FindWorktree finds a usable worktree. One without a directory is not found, and t is git's
// record of it.
func FindWorktree(ctx context.Context, repo *worktrees.Repository, w Worktree) (t worktrees.Tree, found bool, err error) {
	t, found, err = repo.Find(ctx, w.Name)
	if err != nil || !found || t.Missing {
		return t, false, err
	}
	if _, err := repo.Worktree(ctx, t); err != nil {
		return t, false, err
	}
	return t, true, checkBranch(t, w)
}

func (h Host) createWorktree(ctx context.Context, repo *worktrees.Repository, w Worktree) error {
	t, created, err := repo.Add(ctx, w.Name, cmp.Or(w.Branch, w.Name))
	if err != nil {
		return err
	}
	branch := "branch " + t.Branch
	if created {
		branch = "the new branch " + t.Branch
	}
	h.Report(fmt.Sprintf("Created worktree %s on %s", filepath.Join(worktrees.Folder, w.Name), branch))
	filters, err := repo.Unfiltered(ctx, t)
	for _, name := range filters {
		h.Warn(hint.Wrap(fmt.Errorf("the filter %q was not run for files in the new worktree: they are as committed", name), "run %q", filterCommand(t.Path, name)))
	}
	if err != nil {
		h.Warn(err)
	}
	return nil
}

// filterCommand returns the command by which the user's own git runs a filter for all files.
func filterCommand(path, filter string) string {
	in := "git -C " + path
	if filter == "lfs" {
		return in + " lfs pull"
	}
	return in + " read-tree --empty && " + in + " reset --hard"
}

// branchFor returns the branch for a new worktree: the requested one, the one that it had before
// its directory was removed, or the user's answer.
func (h Host) branchFor(ctx context.Context, w Worktree, was worktrees.Tree) (string, error) {
	if branch := cmp.Or(w.Branch, was.Branch); branch != "" || h.Ask == nil {
		return branch, nil
	}
	answer, err := h.Ask(ctx, fmt.Sprintf("Branch name (press Enter to use '%s'): ", w.Name))
	return strings.TrimSpace(answer), err
}

// checkBranch returns an error if an existing worktree has another branch than the requested one.
func checkBranch(t worktrees.Tree, w Worktree) error {
	if w.Branch == "" || w.Branch == t.Branch {
		return nil
	}
	on := "on no branch"
	if t.Branch != "" {
		on = fmt.Sprintf("on branch %q", t.Branch)
	}
	return hint.Wrap(fmt.Errorf("worktree %q exists already, %s, not on %q", w.Name, on, w.Branch), "use it without --branch-name, or choose another name")
}

// Into returns the host with the worktree as its current directory; the same host for nil. It
// creates no worktree in a repository without a scope, or if check returns an error, which gets the
// current worktree with the branch of the new one, as far as that is known.
func (h Host) Into(ctx context.Context, w *Worktree, check func(gitrepo.Worktree) error) (Host, error) {
	if w == nil {
		return h, nil
	}
	dir, err := h.addWorktree(ctx, *w, func() error {
		wt, err := gitrepo.Detect(ctx, h.Dir, func(name string) string {
			if name == "RALPH_SCOPE_BRANCH" {
				return cmp.Or(w.Branch, w.Name, "any")
			}
			return h.Getenv(name)
		})
		if err != nil || check == nil {
			return err
		}
		return check(wt)
	})
	if err != nil {
		return h, err
	}
	h.Dir = dir
	return h, nil
}

// Existing returns the host with its current directory in an existing worktree; the same host
// for nil.
func (h Host) Existing(ctx context.Context, w *Worktree) (in Host, found bool, err error) {
	if w == nil {
		return h, true, nil
	}
	repo, err := OpenRepository(ctx, h.Dir)
	if err != nil {
		return h, false, err
	}
	t, found, err := FindWorktree(ctx, repo, *w)
	h.Dir = t.Path
	return h, found, err
}

// LockWorktrees locks the list of worktrees of a repository.
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

// WorktreeNames returns the names of the worktrees below .worktrees of a directory's repository.
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

// Branches returns the branches of a directory's repository.
func Branches(ctx context.Context, dir string) ([]string, error) {
	repo, err := OpenRepository(ctx, dir)
	if err != nil {
		return nil, err
	}
	return repo.Branches(ctx)
}

// OpenRepository opens a directory's repository.
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

// CurrentWorktree finds the worktree of the current directory. Without a branch or origin, its
// scope is empty.
func (h Host) CurrentWorktree(ctx context.Context) (wt gitrepo.Worktree, inside bool, err error) {
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

// LoopWorktree finds the current worktree for a command about its loops. On a detached HEAD, such as
// in a rebase, the scope is that of the only branch that has had a sandbox there.
func (h Host) LoopWorktree(ctx context.Context) (gitrepo.Worktree, error) {
	wt, err := gitrepo.Detect(ctx, h.Dir, h.Getenv)
	if !errors.Is(err, gitrepo.ErrDetached) {
		return wt, err
	}
	wt, anyErr := gitrepo.Detect(ctx, h.Dir, AnyScope)
	owners, listErr := h.Owners()
	if other := errors.Join(anyErr, listErr); other != nil {
		return gitrepo.Worktree{}, other
	}
	var branches []string
	for _, o := range owners {
		if o.Root == wt.Root && !slices.Contains(branches, o.Scope.Branch) {
			branches, wt.Scope = append(branches, o.Scope.Branch), o.Scope
		}
	}
	switch len(branches) {
	case 0:
		return gitrepo.Worktree{}, err
	case 1:
		return wt, nil
	}
	slices.Sort(branches)
	return gitrepo.Worktree{}, hint.Wrap(fmt.Errorf("detached HEAD state, and several branches have had sandboxes in %s: %s", wt.Root, strings.Join(branches, ", ")),
		"check out one of them, or list the sandboxes with %q and pass a name to \"docker ralph logs\" or \"attach\"", "docker ralph ls")
}

// AnyScope accepts a worktree without a branch or an origin.
func AnyScope(name string) string {
	return map[string]string{"RALPH_SCOPE_REPO": "any", "RALPH_SCOPE_BRANCH": "any"}[name]
}
