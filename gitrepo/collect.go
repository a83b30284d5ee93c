package gitrepo

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Shallow says that the repository lacks the beginning of its history.
func (w Worktree) Shallow() bool {
	info, err := os.Stat(filepath.Join(w.CommonDir, "shallow"))
	return err == nil && info.Size() > 0
}

// Collect fetches all branches of a remote into refs below prefix
// ("refs/ralph/x"), and nothing else: no tags, no submodules, no other ref. What
// comes is checked, because an agent has made it.
func (w Worktree) Collect(ctx context.Context, remote, prefix string) error {
	g, err := newGit(w.Root)
	if err != nil {
		return err
	}
	a := g.run(ctx, "-c", "fetch.fsckObjects=true", "fetch", "--quiet", "--no-tags", "--no-recurse-submodules",
		"--no-write-fetch-head", "--no-auto-maintenance", "--no-prune", remote, "+refs/heads/*:"+prefix+"/*")
	if a.err != nil {
		return fmt.Errorf("fetching from the git remote %q: %w", remote, a.err)
	}
	return nil
}

// Ahead returns how many commits a ref has that the work tree's branch does not
// have; none if there is no such ref.
func (w Worktree) Ahead(ctx context.Context, ref string) (int, error) {
	g, err := newGit(w.Root)
	if err != nil {
		return 0, err
	}
	if a := g.run(ctx, "rev-parse", "--verify", "--quiet", ref+"^{commit}"); a.err != nil {
		return 0, nil //nolint:nilerr // there is none
	}
	a := g.run(ctx, "rev-list", "--count", ref, "--not", "HEAD", "--")
	if a.err != nil {
		return 0, fmt.Errorf("counting the commits of %s: %w", ref, a.err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(a.stdout))
	if err != nil {
		return 0, fmt.Errorf("counting the commits of %s: %w", ref, err)
	}
	return n, nil
}
