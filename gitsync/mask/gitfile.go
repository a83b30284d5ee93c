package mask

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitsync/hostgit"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// maxGitFile is the size of the largest .git file that is read: an agent could have
// written it.
const maxGitFile = 16 << 10

// CheckGitFile checks that the .git file of a nested worktree leads to its git directory.
// A sandbox that sees the worktree could have changed it, and git that the user runs
// there would follow it to a configuration of the agent's. A missing file is in order:
// git adds or removes the worktree.
func CheckGitFile(g hostgit.Git, path string) error {
	linked, err := gitrepo.LinkedWorktrees(g.CommonDir)
	if err != nil {
		return fmt.Errorf("listing worktrees: %w", err)
	}
	target, err := readGitFile(g.Root, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		for dir, root := range linked {
			resolved, _ := filepath.EvalSymlinks(dir)
			if root == path && (target == dir || target == resolved) {
				return nil
			}
		}
		err = errors.New("its .git does not lead to its git directory")
	}
	return hint.Wrap(err, "remove %s, then run %q", termsafe.Name(filepath.Join(path, ".git")), "git worktree repair")
}

// readGitFile returns the path in the .git file of a worktree below root.
func readGitFile(root, path string) (string, error) {
	rel, err := filepath.Rel(root, path)
	if err != nil {
		return "", err
	}
	dir, err := os.OpenRoot(root) // an agent's links do not lead out of it
	if err != nil {
		return "", err
	}
	defer func() { _ = dir.Close() }()
	// Without O_NONBLOCK, opening a named pipe would wait for ever.
	f, err := dir.OpenFile(filepath.Join(rel, ".git"), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > maxGitFile {
		return "", errors.New("its .git is not a file of git's")
	}
	content, err := io.ReadAll(io.LimitReader(f, maxGitFile))
	if err != nil {
		return "", err
	}
	target, found := strings.CutPrefix(string(content), "gitdir: ")
	if !found {
		return "", errors.New("its .git is not a file of git's")
	}
	target = filepath.FromSlash(strings.TrimRight(target, "\r\n"))
	if !filepath.IsAbs(target) {
		target = filepath.Join(path, target)
	}
	return filepath.Clean(target), nil
}
