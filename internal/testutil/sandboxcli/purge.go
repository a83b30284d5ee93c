package sandboxcli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/moby/moby/client"
)

// Purge ends the background processes, and the processes and containers of sandboxes, of a
// state directory. Its files are kept.
func Purge(ctx context.Context, dir string) error {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return fmt.Errorf("cleaning up after the fake: %w", err)
	}
	err = killMarked(func(entry string) bool { return entry == daemonEnv+"="+dir })
	err = errors.Join(err, killBelow(dir))
	s, loading := Load(dir)
	if loading != nil || s.Mode != ModeContainer || s.Engine == "" {
		return errors.Join(err, loading)
	}
	return errors.Join(err, purgeContainers(ctx, s.Engine, dir))
}

func purgeContainers(ctx context.Context, engine, dir string) error {
	api, err := client.New(client.WithHost(engine))
	if err != nil {
		return fmt.Errorf("cleaning up after the fake: %w", err)
	}
	defer func() { _ = api.Close() }()
	found, err := api.ContainerList(ctx, client.ContainerListOptions{
		All: true, Filters: make(client.Filters).Add("label", Label+"="+dir),
	})
	if err != nil {
		return fmt.Errorf("cleaning up after the fake: %w", err)
	}
	for _, container := range found.Items {
		err = errors.Join(err, removeContainer(ctx, api, container.ID))
	}
	return err
}
