package gitrepo

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/wire/budget"
)

// checkRoot checks that a directory and its repository belong together. With a .git file or
// core.worktree, an agent could make git use another repository or directory of the user,
// which the sandbox would see.
func checkRoot(dir string, w Worktree) error {
	if rel, err := filepath.Rel(realPath(w.Root), realPath(dir)); err != nil || !filepath.IsLocal(rel) {
		return hint.Wrap(fmt.Errorf("%q is outside of its worktree %q", dir, w.Root), "change to the worktree, or remove the .git that leads there")
	}
	dotGit := filepath.Join(w.Root, ".git")
	if !leadsTo(w.Root, w.GitDir) {
		return hint.Wrap(fmt.Errorf("worktree %q does not lead to its repository %q", w.Root, w.GitDir), "run %q", "git config --unset core.worktree")
	}
	if w.Linked() {
		return checkLinked(dotGit, w)
	}
	info, err := os.Lstat(dotGit)
	if err != nil {
		return fmt.Errorf("reading the repository: %w", err)
	}
	if !info.IsDir() && filepath.Base(w.GitDir) == ".git" {
		return hint.Wrap(fmt.Errorf("%s leads to the repository of another directory (%s)", dotGit, w.GitDir), "remove it, or create a worktree with %q", "git worktree add")
	}
	return nil
}

// checkLinked checks that the repository has this worktree (gitrepository-layout(5),
// worktrees/<id>/gitdir).
func checkLinked(dotGit string, w Worktree) error {
	if sameFile(filepath.Dir(w.GitDir), filepath.Join(w.CommonDir, "worktrees")) {
		back, err := budget.ReadFile(filepath.Join(w.GitDir, "gitdir"), maxPointer)
		if err != nil {
			return fmt.Errorf("reading the repository: %w", err)
		}
		if sameFile(resolve(w.GitDir, string(back)), dotGit) {
			return nil
		}
	}
	return hint.Wrap(fmt.Errorf("%s leads to %s, which belongs to another worktree", dotGit, w.GitDir), "if it was moved, run %q there", "git worktree repair")
}

// leadsTo reports whether the .git in a directory is a git directory, or a file or link that
// leads to it.
func leadsTo(root, gitDir string) bool {
	dotGit := filepath.Join(root, ".git")
	if sameFile(dotGit, gitDir) {
		return true
	}
	// A named pipe would block.
	if info, err := os.Stat(dotGit); err != nil || !info.Mode().IsRegular() {
		return false
	}
	content, err := budget.ReadFile(dotGit, maxPointer)
	if err != nil {
		return false
	}
	target, found := strings.CutPrefix(string(content), "gitdir: ")
	return found && sameFile(resolve(root, target), gitDir)
}

// resolve returns the path in one of git's files, which can be relative to its directory.
func resolve(folder, content string) string {
	path := filepath.FromSlash(strings.TrimRight(content, "\r\n"))
	if !filepath.IsAbs(path) {
		path = filepath.Join(folder, path)
	}
	return path
}

// Outer returns the root of the nearest repository around the worktree that does not track it
// as a submodule or a linked worktree; empty for none. An agent in the outer one could have
// created this one.
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

// MayBeNested reports whether a directory has a .git in two directories of its path, without a
// git process. If so, [Worktree.Outer] decides.
func MayBeNested(dir string) bool {
	n := 0
	for dir = realPath(dir); ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			n++
		}
		if n > 1 || dir == filepath.Dir(dir) {
			return n > 1
		}
	}
}

// gitDirIn returns the git directory of a directory; empty for none.
func gitDirIn(dir string) string {
	dotGit := filepath.Join(dir, ".git")
	info, err := os.Stat(dotGit)
	switch {
	case err != nil:
		return ""
	case info.IsDir():
	case info.Mode().IsRegular(): // a named pipe would block
		content, err := budget.ReadFile(dotGit, maxPointer)
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

// belongsTo reports whether the repository is within the git directory of another one, like
// those of its submodules and linked worktrees. An agent cannot write there.
func (w Worktree) belongsTo(gitDir string) bool {
	if content, err := budget.ReadFile(filepath.Join(gitDir, "commondir"), maxPointer); err == nil { // of a linked work tree
		gitDir = realPath(resolve(gitDir, string(content)))
	}
	rel, err := filepath.Rel(gitDir, w.CommonDir)
	return err == nil && filepath.IsLocal(rel)
}
