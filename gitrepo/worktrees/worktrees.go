// Package worktrees adds, lists and removes linked work trees of a git
// repository. Those that it adds are in the folder .worktrees of the main one.
//
// The files in work trees are an agent's. git looks at each one through the git
// directory that the repository has for it, and not through what its .git file
// says.
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
)

// Folder is where work trees are added, below the main one.
const Folder = ".worktrees"

// Repository is one with its work trees, seen from one of them.
type Repository struct {
	git        gitrepo.Git
	here       string // the work tree that we are in
	main       string // empty if it cannot be known
	common     string
	mainBranch string
	timeout    time.Duration // with git where it looks at files
}

// statusTimeout is enough for the files of large repositories.
const statusTimeout = time.Minute

// Open returns the repository of a work tree.
func Open(wt gitrepo.Worktree) (*Repository, error) {
	program, err := gitrepo.NewGit(wt.Root)
	if err != nil {
		return nil, err
	}
	return &Repository{git: program, here: realPath(wt.Root), main: wt.MainRoot, common: wt.CommonDir, timeout: statusTimeout}, nil
}

// Tree is a work tree that git knows.
type Tree struct {
	// Path is absolute, without symbolic links.
	Path string
	// Name is what it is called below [Folder]; empty for one elsewhere.
	Name string
	// Branch is the one that is checked out, without "refs/heads/"; empty for
	// none.
	Branch string
	// Main tells that it is the repository's main one, and Current that it is
	// the one that we are in.
	Main, Current bool
	// Missing tells that its folder is gone.
	Missing bool
	// Locked tells that git must not remove it; Why says the reason, if one was
	// given.
	Locked bool
	Why    string

	head   string // commit
	gitDir string // its own; empty if it was not found
}

// CheckName refuses names that [Repository.Add] does not take: those with anything but
// letters, digits, dashes and underscores in them.
func CheckName(name string) error {
	if !regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_-]{0,99}$`).MatchString(name) {
		return fmt.Errorf("%q cannot be the name of a worktree: use letters, digits, - and _ (100 at most, no - at the start)", name)
	}
	return nil
}

// List returns all work trees, the main one first.
func (r *Repository) List(ctx context.Context) ([]Tree, error) {
	out, err := r.git.Run(ctx, "worktree", "list", "--porcelain", "-z")
	if err != nil {
		return nil, fmt.Errorf("listing the worktrees: %w", err)
	}
	dirs, err := gitDirs(r.common)
	if err != nil {
		return nil, fmt.Errorf("listing the worktrees: %w", err)
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

// Find returns the work tree of that name.
func (r *Repository) Find(ctx context.Context, name string) (t Tree, found bool, err error) {
	trees, err := r.List(ctx)
	for _, t := range trees {
		if t.Name == name && name != "" {
			return t, true, err
		}
	}
	return Tree{}, false, err
}

// Worktree returns what a command in a work tree goes by, without a scope. An agent that could
// change the .git file can have it lead to another repository: that is refused.
func (r *Repository) Worktree(ctx context.Context, t Tree) (gitrepo.Worktree, error) {
	wt, err := gitrepo.Detect(ctx, t.Path, func(string) string { return "any" })
	if err == nil && (wt.CommonDir != r.common || wt.GitDir != t.gitDir) {
		err = fmt.Errorf("it leads to %s instead", wt.GitDir)
	}
	if err != nil {
		return gitrepo.Worktree{}, fmt.Errorf("the .git file of the worktree %s does not lead to this repository: %w. Somebody has changed it; look at it, then \"git worktree repair %s\"", t.Path, err, t.Path)
	}
	wt.Scope = gitrepo.Scope{}
	return wt, nil
}

// Branches returns all branches of the repository.
func (r *Repository) Branches(ctx context.Context) ([]string, error) {
	out, err := r.git.Run(ctx, "for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads")
	if err != nil {
		return nil, fmt.Errorf("listing the branches: %w", err)
	}
	return strings.Fields(out), nil
}

// parseList reads what "git worktree list --porcelain -z" prints. A bare
// repository is no work tree and is left out.
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

// gitDirs returns the git directories of linked work trees by their paths.
func gitDirs(common string) (map[string]string, error) {
	dirs := map[string]string{}
	folder := filepath.Join(common, "worktrees")
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		dir := filepath.Join(folder, e.Name())
		content, err := os.ReadFile(filepath.Join(dir, "gitdir"))
		if err != nil {
			continue // git has begun or ended it
		}
		dotGit := filepath.FromSlash(strings.TrimRight(string(content), "\r\n"))
		if !filepath.IsAbs(dotGit) {
			dotGit = filepath.Join(dir, dotGit)
		}
		dirs[realPath(filepath.Dir(dotGit))] = dir
	}
	return dirs, nil
}

// realPath resolves symbolic links. Of a path that is gone it resolves what is
// left of it.
func realPath(path string) string {
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		return resolved
	}
	if dir := filepath.Dir(path); dir != path {
		return filepath.Join(realPath(dir), filepath.Base(path))
	}
	return path
}
