package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/ralph/backlog"
)

// configuration returns the configuration from the host in a sandbox, and otherwise
// that of docker ralph's files.
func configuration(ctx context.Context, danger bool) (config.Guest, error) {
	if v := os.Getenv(config.GuestEnv); v != "" {
		return config.DecodeGuest(v)
	}
	sources := config.Sources{UserDir: userDir(), Getenv: os.Getenv, OnHost: true}
	if path, err := backlog.Locate(ctx); err == nil { // a repository is optional
		if top := filepath.Dir(filepath.Dir(path)); isDir(top) {
			sources.Root = top
		}
	}
	effective, err := config.Load(sources)
	if err != nil {
		return config.Guest{}, err
	}
	guest := effective.Guest(false)
	if danger {
		return guest, nil
	}
	// Without a sandbox, the repository's commands would run as the user.
	for _, key := range []string{config.KeyChecks, "agents." + guest.Agent + ".command"} {
		if from := effective.Origins[key]; from.Kind == config.FromRepository {
			return config.Guest{}, hint.Wrap(fmt.Errorf("%s: %s of a repository must not run without a sandbox", from, key), "use docker ralph, or pass --danger")
		}
	}
	return guest, nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// userDir returns the plugin's directory in Docker's configuration directory.
func userDir() string {
	dir := os.Getenv("DOCKER_CONFIG")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		dir = filepath.Join(home, ".docker")
	}
	return filepath.Join(dir, "ralph")
}
