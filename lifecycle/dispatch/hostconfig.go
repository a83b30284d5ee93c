package dispatch

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/sys/atomicwriter"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/hostconfig"
)

// hostConfig reads the user's configuration of the agent, for a command that
// starts one.
func (h Host) hostConfig(agent string, opts Options) (*hostconfig.Files, error) {
	if opts.Command == taskCommand || opts.NoHostConfig {
		return &hostconfig.Files{}, nil
	}
	files, err := hostconfig.Collect(agent, h.Home, h.LookupEnv)
	if err != nil {
		return nil, err
	}
	for _, dir := range files.Missing {
		h.debug(fmt.Sprintf("There is no configuration of %s in %s", agent, dir))
	}
	return files, nil
}

func (h Host) debug(message string) {
	if h.Debug != nil {
		h.Debug(message)
	}
}

// configNote is what is known of the configuration in a sandbox.
func (h Host) configNote(name string) string { return filepath.Join(h.StateDir, "hostconfig", name) }

// bringConfig puts the user's configuration of the agent into a sandbox, before
// a command that starts one; nil leaves alone what is there. What was changed
// there since the last time is lost. While something else runs there, nothing is
// done.
func (h Host) bringConfig(ctx context.Context, at place, sb lifecycle.Sandbox, files *hostconfig.Files, command string) error {
	if command == taskCommand || files == nil {
		return nil
	}
	path := h.configNote(sb.Name)
	note, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading what configuration %s has: %w", sb.Name, err)
	}
	told, id, _ := strings.Cut(strings.TrimSuffix(string(note), "\n"), " ")
	known := told != "" && id == sb.ID // which is empty where a driver has none
	if files.Empty() && !known || !h.idle(ctx, at.driver, sb) {
		return nil
	}
	if err := h.sendConfig(ctx, at.driver, sb, files); err != nil {
		return err
	}
	digest := files.Digest()
	if !known || told != digest {
		for _, what := range files.LeftOut {
			h.report("Warning: " + shown(what))
		}
	}
	if err = os.MkdirAll(filepath.Dir(path), 0o700); err == nil {
		err = atomicwriter.WriteFile(path, []byte(digest+" "+sb.ID+"\n"), 0o600)
	}
	if err != nil {
		return fmt.Errorf("noting what configuration %s has: %w", sb.Name, err)
	}
	return nil
}

func (h Host) sendConfig(ctx context.Context, driver lifecycle.Driver, sb lifecycle.Sandbox, files *hostconfig.Files) error {
	archive, err := files.Archive()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, collectLimit)
	defer cancel()
	var said bytes.Buffer
	out := &limited{buf: &said, left: 4096}
	code, err := driver.Exec(ctx, sb, lifecycle.Process{
		ID: rand.Text(), Args: []string{"ralph", "_host-config"}, Dir: sb.Root, Stdin: archive, Stdout: out, Stderr: out,
	})
	if err == nil && code != 0 {
		err = fmt.Errorf("it ended with %d: %q", code, strings.TrimSpace(said.String()))
	}
	if err != nil && !errors.Is(err, lifecycle.ErrNotPrepared) {
		err = fmt.Errorf("putting your configuration of the agent into the sandbox %s: %w. Go without it with --no-host-config", sb.Name, err)
	}
	return err
}
