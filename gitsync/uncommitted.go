package gitsync

import (
	"bytes"
	"context"
	"fmt"
)

// Uncommitted returns the paths of the user's files with uncommitted changes, which a clone does not have.
func (r *Repo) Uncommitted(ctx context.Context) ([]string, error) { return r.uncommittedBut(ctx, nil) }

// unsent is [Repo.Uncommitted] without the prompts that a clone gets without a commit.
func (r *Repo) unsent(ctx context.Context) ([]string, error) {
	prompts, err := r.untrackedPrompts(ctx)
	if err != nil {
		return nil, err
	}
	return r.uncommittedBut(ctx, prompts)
}

func (r *Repo) uncommittedBut(ctx context.Context, others []string) ([]string, error) {
	args := []string{"status", "--porcelain", "-z", "--untracked-files=normal", "--ignore-submodules=all", "--no-renames", "--", "."}
	for _, path := range others {
		args = append(args, ":(exclude,literal)"+path)
	}
	out, err := r.git.With("GIT_LITERAL_PATHSPECS=0").InWorktree(ctx, args...)
	if err != nil {
		return nil, fmt.Errorf("listing uncommitted changes in %s: %w", r.git.Root, err)
	}
	var paths []string
	for line := range bytes.SplitSeq(out, []byte{0}) {
		if len(line) > 3 {
			paths = append(paths, string(line[3:]))
		}
	}
	return paths, nil
}

// HasCommitted reports whether the latest commit of the user's branch has a file or a directory at one of the paths.
func (r *Repo) HasCommitted(ctx context.Context, paths ...string) (bool, error) {
	head, err := r.git.Resolve(ctx, "HEAD")
	if head == "" || err != nil {
		return false, err
	}
	out, err := r.git.Output(ctx, nil, append([]string{"ls-tree", "-z", "--full-tree", "--name-only", head, "--"}, paths...)...)
	if err != nil {
		return false, fmt.Errorf("listing the files of the commit %.10s: %w", head, err)
	}
	return len(out) > 0, nil
}
