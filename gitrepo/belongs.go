package gitrepo

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// checkRoot makes sure that a folder and its repository belong to each other.
// Whoever can write a .git or a .git/config could have git take any other
// repository of the user for that of the folder, or any folder around a
// repository for its work tree, and so choose what the sandbox sees.
func checkRoot(dir string, w Worktree) error {
	if rel, err := filepath.Rel(realPath(w.Root), realPath(dir)); err != nil || !filepath.IsLocal(rel) {
		return fmt.Errorf("git says that %q belongs to the work tree %q, which is somewhere else: go there, or remove the .git that leads there", dir, w.Root)
	}
	dotGit := filepath.Join(w.Root, ".git")
	if !leadsTo(w.Root, w.GitDir) {
		return fmt.Errorf("git says that the work tree of %q is %q, but that folder is not where the repository lies: "+
			"remove core.worktree from its configuration (git config --unset core.worktree)", w.GitDir, w.Root)
	}
	if w.Linked() {
		return checkLinked(dotGit, w)
	}
	info, err := os.Lstat(dotGit)
	if err != nil {
		return fmt.Errorf("looking at what leads to the repository: %w", err)
	}
	if !info.IsDir() && filepath.Base(w.GitDir) == ".git" {
		return fmt.Errorf("%s leads to %s, the repository of another folder: remove it, or make a work tree with \"git worktree add\"", dotGit, w.GitDir)
	}
	return nil
}

// checkLinked makes sure that the repository has this work tree: it says where
// each of its work trees is (gitrepository-layout(5), worktrees/<id>/gitdir).
func checkLinked(dotGit string, w Worktree) error {
	if sameFile(filepath.Dir(w.GitDir), filepath.Join(w.CommonDir, "worktrees")) {
		back, err := os.ReadFile(filepath.Join(w.GitDir, "gitdir"))
		if err != nil {
			return fmt.Errorf("reading where the repository has its work tree: %w", err)
		}
		if sameFile(resolve(w.GitDir, string(back)), dotGit) {
			return nil
		}
	}
	return fmt.Errorf("%s leads to %s, which is not for a work tree there: if it was moved, run \"git worktree repair\" in it", dotGit, w.GitDir)
}

// leadsTo says whether the .git in a folder is this git directory, or a file or
// link that names it.
func leadsTo(root, gitDir string) bool {
	dotGit := filepath.Join(root, ".git")
	if sameFile(dotGit, gitDir) {
		return true
	}
	// Reading anything but a regular file could wait for ever.
	if info, err := os.Stat(dotGit); err != nil || !info.Mode().IsRegular() {
		return false
	}
	content, err := os.ReadFile(dotGit)
	if err != nil {
		return false
	}
	target, found := strings.CutPrefix(string(content), "gitdir: ")
	return found && sameFile(resolve(root, target), gitDir)
}

// resolve returns the path that one of git's files has, which can be relative to
// that file's folder.
func resolve(folder, content string) string {
	path := filepath.FromSlash(strings.TrimRight(content, "\r\n"))
	if !filepath.IsAbs(path) {
		path = filepath.Join(folder, path)
	}
	return path
}

// Outer returns the root of the nearest repository that the work tree lies inside
// of without belonging to it as a submodule or a linked work tree; empty if there
// is none. An agent that works on the outer one could have made this one.
func (w Worktree) Outer() string {
	for dir := filepath.Dir(realPath(w.Root)); ; dir = filepath.Dir(dir) {
		if gitDir := gitDirIn(dir); gitDir != "" && !w.belongsTo(gitDir) {
			return dir
		}
		if dir == filepath.Dir(dir) {
			return ""
		}
	}
}

// gitDirIn is the git directory that the .git in a folder is or names; empty if
// there is none.
func gitDirIn(dir string) string {
	dotGit := filepath.Join(dir, ".git")
	info, err := os.Stat(dotGit)
	switch {
	case err != nil:
		return ""
	case info.IsDir():
	case info.Mode().IsRegular(): // reading anything else could wait for ever
		content, err := os.ReadFile(dotGit)
		target, found := strings.CutPrefix(string(content), "gitdir: ")
		if err != nil || !found {
			return ""
		}
		dotGit = resolve(dir, target)
	default:
		return ""
	}
	if _, err := os.Lstat(filepath.Join(dotGit, "HEAD")); err != nil {
		return ""
	}
	return realPath(dotGit)
}

// belongsTo reports whether the repository's objects and refs are within the git
// directory of another one: so are those of its submodules and linked work trees.
// An agent cannot put them there, as it does not see that directory.
func (w Worktree) belongsTo(gitDir string) bool {
	if content, err := os.ReadFile(filepath.Join(gitDir, "commondir")); err == nil { // of a linked work tree
		gitDir = realPath(resolve(gitDir, string(content)))
	}
	rel, err := filepath.Rel(gitDir, w.CommonDir)
	return err == nil && filepath.IsLocal(rel)
}
