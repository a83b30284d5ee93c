package gitsync

import (
	"context"
	"io"
	"os/exec"
	"strings"

	"github.com/docker-ralph/docker-ralph/lazyregexp"
)

// runCommit is the id of a commit, which a log may follow by its number of commits.
var runCommit = lazyregexp.New(`^([0-9a-f]{40}|[0-9a-f]{64})(~[1-9][0-9]{0,3})?$`)

// HasRun reports whether the commits between two ones are on a branch of the user, or were fetched from the sandbox.
// They are from a log, which can name any.
func (r *Repo) HasRun(ctx context.Context, branch, base, head string) bool {
	if !runCommit().MatchString(head) || !runCommit().MatchString(base) || strings.Contains(head, "~") {
		return false
	}
	found, err := r.git.Line(ctx, "for-each-ref", "--contains="+head, "--count=1", "--format=found", "refs/heads/"+branch, r.Prefix())
	if err != nil || found == "" {
		return false
	}
	has, err := r.git.Contains(ctx, head, base)
	return err == nil && has
}

// WriteDiff writes the changes between two commits for which [Repo.HasRun] is true.
func (r *Repo) WriteDiff(ctx context.Context, to io.Writer, base, head string) error {
	return r.git.Stream(ctx, nil, to, "diff", "--no-color", "--find-renames", "--end-of-options", base, head, "--")
}

// RunDiff returns a git command that shows the changes between two commits for which [Repo.HasRun] is true.
func (r *Repo) RunDiff(ctx context.Context, base, head string, options ...string) (*exec.Cmd, error) {
	return r.git.DiffOf(ctx, base, head, options...)
}
