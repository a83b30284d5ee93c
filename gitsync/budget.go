package gitsync

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/docker-ralph/docker-ralph/gitsync/hostgit"
)

// Budgets for new commits. Some trees that contain each other can have billions of files, and every
// message and name is read later.
const (
	maxCommitSize = 1 << 20
	maxNames      = 256 << 20
)

// verifyBudgets rejects new commits that are too large, or that change too many files.
func (r *Repo) verifyBudgets(ctx context.Context, g hostgit.Git, tips string) error {
	g = g.WithMemoryLimit()
	commits, err := g.Output(ctx, strings.NewReader(tips), "rev-list", "--stdin", "--not", "--all")
	if err != nil {
		return err
	}
	sizes, err := g.Output(ctx, strings.NewReader(string(commits)), "cat-file", "--batch-check=%(objectsize)")
	if err != nil {
		return err
	}
	for size := range strings.FieldsSeq(string(sizes)) {
		if n, err := strconv.ParseUint(size, 10, 64); err == nil && n > maxCommitSize {
			return &sizeError{"a commit message", n, maxCommitSize}
		}
	}
	names := &counter{left: maxNames}
	err = g.Stream(ctx, strings.NewReader(string(commits)), names,
		"diff-tree", "--stdin", "-r", "-m", "-z", "--root", "--name-only", "--no-renames", "--no-ext-diff", "--ignore-submodules=all")
	if names.left < 0 || err != nil && hostgit.OutOfMemory(err) {
		return &sizeError{"names of files", maxNames - uint64(min(names.left, 0)), maxNames} //nolint:gosec // not positive
	}
	return err
}

var errBudget = errors.New("over the budget")

// counter fails when more is written than is left.
type counter struct{ left int64 }

func (c *counter) Write(p []byte) (int, error) {
	if c.left -= int64(len(p)); c.left < 0 {
		return 0, errBudget
	}
	return len(p), nil
}
