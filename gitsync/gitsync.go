// Package gitsync is the host's side of a git directory that a sandbox has
// for itself, over the work tree's own.
//
// The sandbox works on the user's live files, but never sees the user's .git.
// It borrows the objects of that one read-only, and begins with its branches,
// index and a cleaned configuration. New commits come out as a bundle, are
// checked, and go to refs/ralph/SANDBOX/… of the user's repository. The user's
// branch follows when it has not moved; otherwise both stay, and the user is
// told how to bring them together.
//
// The user's repository is trusted; all that comes out of the sandbox is not.
// Of the work tree, which the agent writes, git reads files and attributes
// only, and starts none of the programs that its configuration names.
package gitsync

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/docker-ralph/docker-ralph/wire"

	"github.com/docker-ralph/docker-ralph/gitrepo"
)

// Folder is where a sandbox has its git directory mounted, whether or not it
// also lies over the work tree's .git.
const Folder = wire.PrivateGitDir

// hostFolder is below what the objects of the user's repository are mounted,
// each at its own path, so that paths from one to another hold.
const hostFolder = "/opt/ralph-git/host"

// Shell runs a script of ours with sh in the sandbox, in the work tree, as the
// agent's user. That the script fails is a [*ScriptError].
type Shell func(ctx context.Context, script string, args []string, stdin io.Reader, stdout io.Writer) error

// Repo is the user's repository, beside the git directory of one sandbox.
type Repo struct {
	root, gitDir, commonDir string
	name                    string
	stateDir                string
	git                     git
	gate                    Gate // nil for none
	// quiet says that nothing runs in the sandbox.
	quiet bool
	// salvaging says that the sandbox's git directory was broken.
	salvaging bool
	// folder is where the sandbox's git directory is, for it.
	folder string
	// alternates are the folders that objects may be borrowed from.
	alternates []string
}

// Open returns the repository of a work tree for the sandbox of that name.
// stateDir is the plugin's folder on the host.
func Open(wt gitrepo.Worktree, name, stateDir string) (*Repo, error) {
	g, err := newGit(wt.Root, wt.GitDir)
	if err != nil {
		return nil, err
	}
	return &Repo{root: wt.Root, gitDir: wt.GitDir, commonDir: wt.CommonDir, name: name, stateDir: stateDir, git: g, folder: Folder}, nil
}

// Prefix is below what the sandbox's commits are in the user's repository.
func (r *Repo) Prefix() string { return "refs/ralph/" + r.name }

// base is the ref of the last commit that the user's branch and the sandbox's
// both had. No branch of the sandbox can have its name.
func (r *Repo) base() string { return r.Prefix() + "/@base" }

// small bounds what is copied of the files beside the objects and the index.
const small = 4 << 20

// readSmall reads a regular file that may be missing.
func readSmall(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if os.IsNotExist(err) || err == nil && !info.Mode().IsRegular() {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the repository: %w", err)
	}
	if info.Size() > small {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, small)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the repository: %w", err)
	}
	return content, nil
}

func exists(dir string, names ...string) bool {
	for _, name := range names {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	return false
}
