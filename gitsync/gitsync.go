// Package gitsync is the host's side of a sandbox's clone of the user's worktree.
//
// A clone has a git directory and files of its own, on an engine that may be on another
// machine; nothing of the host is mounted. It gets what the user's branches have, with a
// sanitized configuration: a push sends what is new as a thin pack, and checks it out
// there. New commits come out as a bundle, are verified, and go to refs/ralph/SANDBOX/… of
// the user's repository. The user's branch is fast-forwarded if it has not moved, and its
// files are checked out, but never over changes that are not committed; otherwise both
// sides stay, and the result says how to merge them.
//
// The user's repository is trusted; all that comes out of the sandbox is not. In the
// working tree, to which the agent's commits come, git reads files and attributes only, and
// starts no program that its configuration names.
package gitsync

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitsync/hostgit"
	"github.com/docker-ralph/docker-ralph/wire"
)

// Folder is where a sandbox has the git directory of its clone mounted.
const Folder = wire.PrivateGitDir

// Shell runs a script with sh in the sandbox, in the worktree, as the agent's user. A
// script that fails is a [*ScriptError].
type Shell func(ctx context.Context, script string, args []string, stdin io.Reader, stdout io.Writer) error

// Repo is the user's repository, and the clone of one sandbox.
type Repo struct {
	git      hostgit.Git
	name     string // of the sandbox
	stateDir string
	folder   string   // of the git directory, in the sandbox
	gate     Gate     // nil for none
	changes  bool     // the user's uncommitted changes are sent too
	include  []string // patterns of ignored files that are sent too
	required []string // those of include that have to match
	progress Progress // of what is sent; nil for none
	loop     bool     // see [Repo.WithLoop]
	stay     bool     // see [Repo.PushAhead]
	onto     string   // see [Repo.OnBranch]; empty for the branch that is checked out
	after    string   // commit that the sandbox's branch has to have; empty for none
	partSize int64

	idle      bool // no process runs in the sandbox
	pushes    bool // after a fetch
	repairing bool
}

// Open returns the repository of a worktree for a sandbox. stateDir is the plugin's
// state directory on the host.
func Open(wt gitrepo.Worktree, name, stateDir string) (*Repo, error) {
	g, err := hostgit.New(wt)
	if err != nil {
		return nil, err
	}
	return &Repo{git: g, name: name, stateDir: stateDir, folder: Folder, partSize: partSize}, nil
}

// Prefix is where the user's repository has the refs of the sandbox.
func (r *Repo) Prefix() string { return "refs/ralph/" + r.name }

// base is the ref of the last commit that both sides had.
func (r *Repo) base() string { return r.Prefix() + "/@base" }

// maxCopied is the size of the largest file that is copied to a sandbox, but for
// objects and the index.
const maxCopied = 4 << 20

// readCopied reads a regular file; a missing one is empty.
func readCopied(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if os.IsNotExist(err) || err == nil && !info.Mode().IsRegular() {
		return nil, nil
	}
	if err == nil && info.Size() > maxCopied {
		err = fmt.Errorf("%s is larger than %d bytes", path, maxCopied)
	}
	var content []byte
	if err == nil {
		content, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the repository: %w", err)
	}
	return content, nil
}

func exists(elem ...string) bool {
	_, err := os.Lstat(filepath.Join(elem...))
	return err == nil
}
