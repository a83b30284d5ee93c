package approval

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/config/imageref"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitrepo/worktrees"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

// Configure loads the configuration and asks the user to approve the repository's
// privileged settings.
func Configure(ctx context.Context, h host.Host, wt gitrepo.Worktree, over config.Overrides) (config.Effective, error) {
	store := config.NewTrustStore(h.StateDir)
	cfg, err := loadHeld(store, config.Sources{Root: wt.Root, UserDir: h.StateDir, Getenv: h.Getenv, Overrides: over})
	if err != nil {
		return config.Effective{}, err
	}
	err = requireTrust(ctx, store, wt, cfg)
	if untrusted, ok := errors.AsType[*config.UntrustedError](err); ok && h.Confirm != nil {
		yes, askErr := h.Confirm(ctx, Describe(untrusted.Settings)+"Trust these settings of the repository?")
		if askErr != nil {
			return config.Effective{}, askErr
		}
		if yes {
			err = store.Approve(wt.Root, cfg.PrivilegedDigest())
		}
	}
	return cfg, err
}

// Load is [config.Load] with a check of image references.
func Load(s config.Sources) (config.Effective, error) {
	s.Images = imageref.Checker{}
	return config.Load(s)
}

// loadHeld is [Load] with what an agent must not loosen.
func loadHeld(store config.TrustStore, s config.Sources) (_ config.Effective, err error) {
	if s.InForce, err = store.Held(s.Root); err != nil {
		return config.Effective{}, err
	}
	return Load(s)
}

// Hold keeps the settings of a worktree in force while an agent can change its file. The returned function
// ends that unless they have been loosened.
func Hold(h host.Host, wt gitrepo.Worktree, cfg config.Effective) (release func() error, err error) {
	store := config.NewTrustStore(h.StateDir)
	return func() error {
		now, err := Load(config.Sources{Root: wt.Root, UserDir: h.StateDir, InForce: cfg.Repository})
		if err != nil || now.Loosened { // the next command reports it
			return store.Hold(wt.Root, cfg.Repository)
		}
		return store.Release(wt.Root)
	}, store.Hold(wt.Root, cfg.Repository)
}

// requireTrust returns an error if privileged settings are not approved for the
// worktree or, for a linked one, for the main worktree.
func requireTrust(ctx context.Context, store config.TrustStore, wt gitrepo.Worktree, cfg config.Effective) error {
	err := store.Require(cfg)
	_, untrusted := errors.AsType[*config.UntrustedError](err)
	if !untrusted || !wt.Linked() || wt.MainRoot == "" {
		return err
	}
	if approved, storeErr := store.Approved(wt.MainRoot, cfg.PrivilegedDigestAt(wt.MainRoot)); storeErr != nil || !approved {
		return err
	}
	// Any directory can claim to be a worktree of some repository.
	repo, listErr := worktrees.Open(wt)
	if listErr != nil {
		return err
	}
	trees, listErr := repo.List(ctx)
	if listErr != nil || !slices.ContainsFunc(trees, func(t worktrees.Tree) bool { return t.Current }) {
		return err
	}
	return nil
}

// Describe lists privileged settings, one per line.
func Describe(settings []config.PrivilegedSetting) string {
	var b strings.Builder
	for _, s := range settings {
		if s.Value == "" {
			_, _ = fmt.Fprintf(&b, "%s does not set %s: %s\n", s.Origin.Name, s.Key, s.Why)
			continue
		}
		_, _ = fmt.Fprintf(&b, "%s asks for %s = %q: %s\n", s.Origin, s.Key, s.Value, s.Why)
	}
	return b.String()
}
