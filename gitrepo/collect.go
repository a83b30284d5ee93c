package gitrepo

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// Shallow reports whether the repository is a shallow clone.
func (w Worktree) Shallow() bool {
	info, err := os.Stat(filepath.Join(w.CommonDir, "shallow"))
	return err == nil && info.Size() > 0
}

// Collect fetches the branches of a remote, and nothing else, into refs below prefix
// ("refs/ralph/x"). Objects are verified, because an agent has made them.
func (w Worktree) Collect(ctx context.Context, remote, prefix string) error {
	g, err := NewGit(w.Root)
	if err != nil {
		return err
	}
	g.Config = append(g.Config, "fetch.fsckObjects=true")
	g.Protocols = "git:file" // of the daemon of a sandbox, and of a clone on this machine
	_, err = g.WithMemoryLimit().Run(ctx, "fetch", "--quiet", "--upload-pack=git-upload-pack", "--no-tags", "--no-recurse-submodules",
		"--no-write-fetch-head", "--no-auto-maintenance", "--no-prune", remote, "+refs/heads/*:"+prefix+"/*")
	if err != nil {
		return fmt.Errorf("fetching from the git remote %q: %w", remote, err)
	}
	return nil
}

// Ahead returns how many commits of a ref the worktree's branch lacks; 0 without the ref.
func (w Worktree) Ahead(ctx context.Context, ref string) (int, error) {
	if _, err := w.ask(ctx, "rev-parse", "--verify", "--quiet", ref+"^{commit}"); err != nil {
		return 0, nil //nolint:nilerr // no such ref
	}
	out, err := w.ask(ctx, "rev-list", "--count", ref, "--not", "HEAD", "--")
	n := 0
	if err == nil {
		n, err = strconv.Atoi(out)
	}
	if err != nil {
		return 0, fmt.Errorf("counting the commits of %s: %w", ref, err)
	}
	return n, nil
}
