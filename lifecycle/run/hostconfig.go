package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle/commits"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"

	"github.com/docker-ralph/docker-ralph/credential/agentconfig"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// hostConfig reads the user's configuration of the agent, for a command that
// starts one.
func hostConfig(h host.Host, agent string, opts Options) (*agentconfig.Files, error) {
	if opts.Command == host.TaskCommand || opts.NoHostConfig {
		return &agentconfig.Files{}, nil
	}
	files, err := agentconfig.Collect(agent, h.Home, h.LookupEnv)
	if err != nil {
		return nil, err
	}
	for _, dir := range files.Missing {
		debug(h, fmt.Sprintf("There is no configuration of %s in %s", agent, dir))
	}
	return files, nil
}

func debug(h host.Host, message string) {
	if h.Debug != nil {
		h.Debug(message)
	}
}

// pushConfig lays the user's configuration of the agent out where a sandbox sees
// it, and has it copied there, before a command that starts one; nil leaves alone
// what is there. What was changed there since the last time is lost. While
// something else runs there, nothing is done.
func pushConfig(ctx context.Context, h host.Host, r Ready, sb lifecycle.Sandbox, files *agentconfig.Files, command string) error {
	if command == host.TaskCommand || files == nil {
		return nil
	}
	staging, err := agentconfig.StagingAt(sb.Config, r.Kind, sb.Name)
	if err != nil {
		return err
	}
	note, err := staging.Note()
	if err != nil {
		return fmt.Errorf("reading which agent settings %s has: %w", sb.Name, err)
	}
	told, id, _ := strings.Cut(strings.TrimSuffix(note, "\n"), " ")
	known := told != "" && id == sb.ID // which is empty where a driver has none
	if files.Empty() && !known || !commits.Idle(ctx, r.Driver, sb) {
		return nil
	}
	unlock, err := staging.Lock(ctx)
	if err != nil {
		return configError(sb, err)
	}
	defer unlock()
	name, err := staging.Put(files)
	if err != nil {
		return configError(sb, err)
	}
	if err := copyConfig(ctx, r.Driver, sb, path.Join(sb.ConfigAt, name)); err != nil {
		return err
	}
	digest := files.Digest()
	if !known || told != digest {
		for _, what := range files.LeftOut {
			h.Report("Warning: " + host.Quote(what))
		}
	}
	if err := staging.WriteNote(digest + " " + sb.ID + "\n"); err != nil {
		return fmt.Errorf("recording the agent settings of %s: %w", sb.Name, err)
	}
	return nil
}

// copyConfig has a sandbox copy what it sees in dir to where its agent looks.
func copyConfig(ctx context.Context, driver lifecycle.Driver, sb lifecycle.Sandbox, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, commits.FetchTimeout)
	defer cancel()
	var said bytes.Buffer
	out := &commits.Limited{Buf: &said, Left: 4096}
	code, err := driver.Exec(ctx, sb, lifecycle.Process{
		ID: lifecycle.NewServiceID(), Args: []string{"ralph", "_host-config", dir}, Dir: sb.Root, Stdout: out, Stderr: out,
	})
	if err == nil && code != 0 {
		err = fmt.Errorf("it ended with %d: %q", code, strings.TrimSpace(said.String()))
	}
	if err != nil && !errors.Is(err, lifecycle.ErrNotPrepared) {
		err = configError(sb, err)
	}
	return err
}

func configError(sb lifecycle.Sandbox, err error) error {
	return hint.Wrap(fmt.Errorf("copying your agent settings into the sandbox %s: %w", sb.Name, err), "recreate the sandbox with --recreate, or pass --no-host-config")
}
