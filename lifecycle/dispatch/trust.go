package dispatch

import (
	"context"
	"errors"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/scope"
	"github.com/docker-ralph/docker-ralph/scope/worktrees"
)

// Trust approves what the ralph.toml of the work tree that dir is in asks
// for, or takes all approvals of the repository back. It returns what to tell
// the user.
func Trust(ctx context.Context, dir, stateDir string, revoke bool) (string, error) {
	wt, err := scope.Detect(ctx, dir, anyScope)
	if err != nil {
		return "", err
	}
	store := config.NewTrustStore(stateDir)
	if revoke {
		return "No setting of " + wt.Root + " is approved any more, nor of another work tree of its repository.", revokeAll(ctx, store, wt)
	}
	cfg, err := loadConfig(config.Sources{Root: wt.Root, UserDir: stateDir})
	if err != nil {
		return "", err
	}
	if len(cfg.Widening) == 0 {
		return "The ralph.toml of " + wt.Root + " asks for nothing that needs approval.", nil
	}
	return Describe(cfg.Widening) + "Approved.", store.Approve(wt.Root, cfg.WideningDigest())
}

// revokeAll takes the approvals of all work trees of a repository back: linked ones
// have those of the main one (see trustedInMain).
func revokeAll(ctx context.Context, store config.TrustStore, wt scope.Worktree) error {
	roots := []string{wt.Root}
	if wt.MainRoot != "" {
		roots = append(roots, wt.MainRoot)
	}
	repo, err := worktrees.Open(wt)
	if err == nil {
		var trees []worktrees.Tree
		trees, err = repo.List(ctx)
		for _, t := range trees {
			roots = append(roots, t.Path)
		}
	}
	return errors.Join(store.Revoke(roots...), err)
}
