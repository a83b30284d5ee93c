// Package amend removes from the commits of a run what cannot leave the sandbox: repositories in
// subdirectories, of which a commit has only a link, and content that a filter such as Git LFS
// would have encoded. The host refuses a branch with either in any of its commits.
package amend

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitrepo/filters"
)

// gitTimeout bounds one git command: an agent can make it hang.
const gitTimeout = 5 * time.Minute

// Worktree is the root of a worktree.
type Worktree string

// LeftOut is what was removed from the commits of a run.
type LeftOut struct {
	// Files are those that the last commit had.
	Files []File
	// Commits are the IDs of the rewritten commits, by their old ones; nil if the commits are
	// as they were: because of nothing to remove, or because the branch was rewritten.
	Commits map[string]string
}

// File is one path that was removed.
type File struct {
	Path string
	// Filter would have encoded the content; empty for a link.
	Filter string
	// Submodule says that the link existed before the run.
	Submodule bool
}

// Reason tells an agent what to do.
func (f File) Reason() string {
	switch {
	case f.Filter != "":
		return fmt.Sprintf("%q needs the git filter %q, which this sandbox does not have: do not commit it", f.Path, f.Filter)
	case f.Submodule:
		return fmt.Sprintf("%q is a submodule, which cannot be changed in this sandbox: do not commit it", f.Path)
	}
	return fmt.Sprintf("%q is a git repository of its own, so your commits had none of its files: remove %s/.git and commit the files", f.Path, f.Path)
}

// Start is the state of a repository before a run.
type Start struct {
	worktree Worktree
	head     string
	known    []string // what its refs point to
}

// Begin returns the state before a run.
func (w Worktree) Begin(ctx context.Context) (*Start, error) {
	head, err := w.head(ctx)
	if err != nil {
		return nil, err
	}
	refs, err := w.git(ctx, "", "for-each-ref", "--format=%(objectname)")
	if err != nil {
		return nil, fmt.Errorf("listing refs: %w", err)
	}
	return &Start{w, head, strings.Fields(refs)}, nil
}

// head returns the current commit, or "".
func (w Worktree) head(ctx context.Context) (string, error) {
	head, err := w.git(ctx, "", "rev-parse", "--verify", "-q", "HEAD^{commit}")
	if gitrepo.SaysNo(err) {
		return "", nil
	}
	return head, err
}

// LeaveOut rewrites the commits of a run without links and raw content. In each of them, such a
// path is as it was before the run. The files of the worktree stay. After an error, and on a
// branch that no longer contains the commit before the run, the commits are as they were.
func (s *Start) LeaveOut(ctx context.Context) (left LeftOut, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("searching the run's commits for links and raw content: %w", err)
		}
	}()
	head, err := s.worktree.head(ctx)
	if err != nil || head == "" || head == s.head {
		return LeftOut{}, err
	}
	commits, err := s.commits(ctx, head)
	if err != nil {
		return LeftOut{}, err
	}
	r := &rewrite{Worktree: s.worktree, start: s.head, head: head, commits: commits}
	if err := r.find(ctx); err != nil || len(r.remove) == 0 {
		return LeftOut{}, err
	}
	tree, err := filters.Tree(ctx, s.worktree.program(), head)
	if err != nil {
		return LeftOut{}, err
	}
	for _, e := range tree {
		if file, is := r.remove[e]; is {
			left.Files = append(left.Files, file)
		}
	}
	if s.head != "" {
		if _, err := s.worktree.git(ctx, "", "merge-base", "--is-ancestor", s.head, head); gitrepo.SaysNo(err) {
			return left, nil
		} else if err != nil {
			return left, err
		}
	}
	left.Commits, err = r.run(ctx)
	return left, err
}

// commits returns the IDs of the run's commits, parents first. What a ref had before the run is
// the user's.
func (s *Start) commits(ctx context.Context, head string) ([]string, error) {
	stdin := head + "\n"
	for _, id := range append(slices.Clone(s.known), s.head) {
		if id != "" {
			stdin += "^" + id + "\n"
		}
	}
	out, err := s.worktree.git(ctx, stdin, "rev-list", "--topo-order", "--reverse", "--ignore-missing", "--stdin")
	return strings.Fields(out), err
}

// program is git in the worktree.
func (w Worktree) program() gitrepo.Git {
	return gitrepo.Git{Program: "git", Dir: string(w), Environ: append(gitrepo.Environ(os.Environ()), "GIT_NO_REPLACE_OBJECTS=1")}
}

// git returns the output of git without the final newline.
func (w Worktree) git(ctx context.Context, stdin string, args ...string) (string, error) {
	out, err := run(ctx, w.program(), stdin, args...)
	return strings.TrimSuffix(out, "\n"), err
}

// run returns the output of git, in a worktree that may have named pipes.
func run(ctx context.Context, g gitrepo.Git, stdin string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, gitTimeout, errors.New("git did not end"))
	defer cancel()
	return gitrepo.AtPipe(ctx, g.Dir, func(ctx context.Context) (string, error) {
		var stdout strings.Builder
		err := g.Stream(ctx, strings.NewReader(stdin), &stdout, args...)
		return stdout.String(), err
	})
}
