package dispatch

import (
	"context"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/scope"
)

// Trust approves what the ralph.toml of the work tree that dir is in asks
// for, or takes all approvals of the work tree back. It returns what to tell
// the user.
func Trust(ctx context.Context, dir, stateDir string, revoke bool) (string, error) {
	wt, err := scope.Detect(ctx, dir, anyScope)
	if err != nil {
		return "", err
	}
	store := config.NewTrustStore(stateDir)
	if revoke {
		return "No setting of " + wt.Root + " is approved any more.", store.Revoke(wt.Root)
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
