// Package worktrees adds, lists and removes linked worktrees, below .worktrees of the main one.
//
// An agent controls the files of a worktree. git inspects it through the git directory in the
// repository, not through its .git file.
package worktrees

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/hint"
)

// Folder is where worktrees are added, below the main one.
const Folder = ".worktrees"

// Repository is a repository with its worktrees.
type Repository struct {
	git        gitrepo.Git
	here       string // the current worktree
	main       string // empty if unknown
	common     string
	mainBranch string
	timeout    time.Duration // of git status
}

const statusTimeout = time.Minute

// Open returns the repository of a worktree.
func Open(wt gitrepo.Worktree) (*Repository, error) {
	program, err := gitrepo.NewGit(wt.Root)
	if err != nil {
		return nil, err
	}
	return &Repository{git: program, here: realPath(wt.Root), main: wt.MainRoot, common: wt.CommonDir, timeout: statusTimeout}, nil
}

// Tree is a worktree.
type Tree struct {
	// Path is absolute, without symbolic links.
	Path string
	// Name is its name below [Folder]; empty elsewhere.
	Name string
	// Branch is checked out, without "refs/heads/"; empty for a detached HEAD.
	Branch string
	// Main marks the main worktree, and Current the one of the command.
	Main, Current bool
	// Missing says that its directory does not exist.
	Missing bool
	// Locked says that git must not remove it; Why is the reason, if known.
	Locked bool
	Why    string

	head   string // commit
	gitDir string // empty if unknown
}

// CheckName rejects names with other characters than letters, digits, dashes and underscores.
func CheckName(name string) error {
	if !regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_-]{0,99}$`).MatchString(name) {
		return hint.Wrap(fmt.Errorf("invalid worktree name %q", name), "use up to 100 letters, digits, - and _, not starting with -")
	}
	return nil
}

// List returns all worktrees, the main one first.
func (r *Repository) List(ctx context.Context) ([]Tree, error) {
	out, err := r.git.Run(ctx, "worktree", "list", "--porcelain", "-z")
	if err != nil {
		return nil, fmt.Errorf("listing worktrees: %w", err)
	}
	linked, err := gitrepo.LinkedWorktrees(r.common)
	if err != nil {
		return nil, fmt.Errorf("listing worktrees: %w", err)
	}
	dirs := map[string]string{}
	for dir, path := range linked {
		dirs[realPath(path)] = dir
	}
	var trees []Tree
	for _, t := range parseList(out) {
		t.Path = realPath(filepath.FromSlash(t.Path))
		t.Main, t.Current, t.gitDir = t.Path == r.main, t.Path == r.here, dirs[t.Path]
		if t.Main {
			t.gitDir, r.mainBranch = r.common, t.Branch
		}
		if filepath.Dir(t.Path) == filepath.Join(r.main, Folder) && CheckName(filepath.Base(t.Path)) == nil {
			t.Name = filepath.Base(t.Path)
		}
		_, err := os.Lstat(t.Path)
		t.Missing = errors.Is(err, os.ErrNotExist)
		trees = append(trees, t)
	}
	return trees, nil
}

// Find returns a worktree by its name.
func (r *Repository) Find(ctx context.Context, name string) (t Tree, found bool, err error) {
	trees, err := r.List(ctx)
	for _, t := range trees {
		if t.Name == name && name != "" {
			return t, true, err
		}
	}
	return Tree{}, false, err
}

// Worktree detects a worktree, without its scope. It rejects a .git file that leads to another
// repository, because an agent could have changed it.
func (r *Repository) Worktree(ctx context.Context, t Tree) (gitrepo.Worktree, error) {
	wt, err := gitrepo.Detect(ctx, t.Path, func(string) string { return "any" })
	if err == nil && (wt.CommonDir != r.common || wt.GitDir != t.gitDir) {
		err = fmt.Errorf("it leads to %s", wt.GitDir)
	}
	if err != nil {
		return gitrepo.Worktree{}, hint.Wrap(fmt.Errorf("checking the .git file of worktree %s: %w", t.Path, err),
			"an agent may have changed it: inspect it, then run %q", "git worktree repair "+t.Path)
	}
	wt.Scope = gitrepo.Scope{}
	return wt, nil
}

// Branches returns all branches of the repository.
func (r *Repository) Branches(ctx context.Context) ([]string, error) {
	out, err := r.git.Run(ctx, "for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads")
	if err != nil {
		return nil, fmt.Errorf("listing branches: %w", err)
	}
	return strings.Fields(out), nil
}

// parseList reads git worktree list --porcelain -z, without a bare repository.
func parseList(out string) []Tree {
	var trees []Tree
	for block := range strings.SplitSeq(out, "\x00\x00") {
		var t Tree
		bare := false
		for line := range strings.SplitSeq(block, "\x00") {
			key, value, _ := strings.Cut(line, " ")
			switch key {
			case "worktree":
				t.Path = value
			case "HEAD":
				t.head = value
			case "branch":
				t.Branch = strings.TrimPrefix(value, "refs/heads/")
			case "locked":
				t.Locked, t.Why = true, value
			case "bare":
				bare = true
			}
		}
		if t.Path != "" && !bare {
			trees = append(trees, t)
		}
	}
	return trees
}

// realPath resolves symbolic links in the existing part of a path.
func realPath(path string) string {
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		return resolved
	}
	if dir := filepath.Dir(path); dir != path {
		return filepath.Join(realPath(dir), filepath.Base(path))
	}
	return path
}
