package approval

import (
	"context"
	"errors"
	"fmt"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

// Values returns the configuration of the current worktree or, outside of one, of the user. It
// warns about settings that need approval.
func Values(ctx context.Context, h host.Host, over config.Overrides) ([]config.Value, error) {
	wt, _, err := h.CurrentWorktree(ctx)
	if err != nil {
		return nil, err
	}
	store := config.NewTrustStore(h.StateDir)
	cfg, err := loadHeld(store, config.Sources{Root: wt.Root, UserDir: h.StateDir, Getenv: h.Getenv, Overrides: over})
	if err != nil {
		return nil, err
	}
	err = requireTrust(ctx, store, wt, cfg)
	if _, untrusted := errors.AsType[*config.UntrustedError](err); untrusted {
		h.Warn(hint.Wrap(err, "approve them with %q", "docker ralph trust"))
	} else if err != nil {
		return nil, err
	}
	return cfg.Values()
}

// EditConfig lets the user edit their configuration, and saves it if it is valid.
func EditConfig(ctx context.Context, h host.Host) error {
	path, text, err := config.UserFile(h.StateDir)
	if err != nil {
		return err
	}
	edited, err := h.Edit(ctx, "config.toml", text)
	if err != nil {
		return hint.Wrap(err, "your configuration is %s", path)
	}
	if edited.Text == text {
		h.Report("Edit cancelled, no changes made")
		return edited.Discard()
	}
	if err := config.WriteUserFile(h.StateDir, edited.Text); err != nil {
		return edited.Keep(err)
	}
	h.Report("Saved " + path)
	return edited.Discard()
}

// InitConfig writes a commented ralph.toml into the current worktree.
func InitConfig(ctx context.Context, h host.Host) (string, error) {
	wt, inside, err := h.CurrentWorktree(ctx)
	if err == nil && !inside {
		err = fmt.Errorf("creating ralph.toml: %s is not in a git repository", h.Dir)
	}
	if err != nil {
		return "", err
	}
	return config.Init(wt.Root)
}
