package gitsync

import (
	"bytes"
	"context"
	"fmt"
)

// Uncommitted returns the paths of the user's files with uncommitted changes, which a clone does not have.
func (r *Repo) Uncommitted(ctx context.Context) ([]string, error) {
	out, err := r.git.InWorktree(ctx, "status", "--porcelain", "-z", "--untracked-files=normal", "--ignore-submodules=all", "--no-renames")
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
