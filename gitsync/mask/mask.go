// Package mask finds what of a worktree a sandbox must not see: other ways than .git to
// the user's git directory.
package mask

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitsync/hostgit"
	"github.com/docker-ralph/docker-ralph/hint"
)

// worktrees is where docker ralph creates linked worktrees, below the main one.
const worktrees = ".worktrees"

// Dirs returns the directories in the worktree that lead to the user's git directory
// by another way than .git: other worktrees, whose .git files an agent could change,
// and git directories. The directory for worktrees is always one of them, for those to
// come.
func Dirs(g hostgit.Git) ([]string, error) {
	all, err := Nested(g)
	if err != nil {
		return nil, err
	}
	var masked []string
	if g.GitDir == g.CommonDir {
		dir := filepath.Join(g.Root, worktrees)
		err := os.Mkdir(dir, 0o755)
		if err == nil {
			err = g.Owner.Chown(dir)
		}
		if info, statErr := os.Lstat(dir); statErr == nil && info.IsDir() && (err == nil || os.IsExist(err)) {
			masked = append(masked, dir)
		}
	}
	for _, path := range all {
		if Within(path, masked) {
			continue
		}
		if err := checkPath(g.Root, path); err != nil {
			return nil, err
		}
		masked = append(masked, path)
	}
	return masked, nil
}

// Nested returns the git directories and the other worktrees of the repository that
// are in this worktree.
func Nested(g hostgit.Git) ([]string, error) {
	linked, err := gitrepo.LinkedWorktrees(g.CommonDir)
	if err != nil {
		return nil, fmt.Errorf("listing worktrees: %w", err)
	}
	all := append([]string{g.GitDir, g.CommonDir}, slices.Sorted(maps.Values(linked))...)
	if dir, name := filepath.Split(g.CommonDir); name == ".git" {
		all = append(all, filepath.Clean(dir)) // the main worktree
	}
	return slices.DeleteFunc(all, func(path string) bool {
		rel, err := filepath.Rel(g.Root, path)
		return err != nil || rel == "." || rel == ".git" || !filepath.IsLocal(rel) || missing(path)
	}), nil
}

// Within reports whether a path is one of the directories, or in one.
func Within(path string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool {
		return path == dir || strings.HasPrefix(path, dir+string(filepath.Separator))
	})
}

// checkPath refuses links on the path of a nested worktree: an agent could have made
// them, and something else would be mounted.
func checkPath(root, path string) error {
	for dir := path; dir != root; dir = filepath.Dir(dir) {
		if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
			return hint.Wrap(fmt.Errorf("masking the nested worktree %s: %s is not a directory", path, dir),
				"remove the link, or the worktree with %q", "git worktree prune")
		}
	}
	return nil
}

// Anchored returns the directories between the worktree and those masked: something
// else could be put in their place if they were renamed.
func Anchored(root string, masked []string) []string {
	var between []string
	for _, path := range masked {
		for dir := filepath.Dir(path); dir != root; dir = filepath.Dir(dir) {
			if !slices.Contains(between, dir) {
				between = append(between, dir)
			}
		}
	}
	return between
}

// OtherSpellings returns the spellings of .git that are the same file.
func OtherSpellings(dotGit string, info os.FileInfo) []string {
	var same []string
	for _, name := range []string{".giT", ".gIt", ".gIT", ".Git", ".GiT", ".GIt", ".GIT"} {
		path := filepath.Join(filepath.Dir(dotGit), name)
		if other, err := os.Lstat(path); err == nil && os.SameFile(info, other) {
			same = append(same, path)
		}
	}
	return same
}

func missing(path string) bool {
	_, err := os.Lstat(path)
	return err != nil
}
