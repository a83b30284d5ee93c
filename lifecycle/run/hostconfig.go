package run

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle/commits"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/wire"

	"github.com/docker-ralph/docker-ralph/credential/agentconfig"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container"
)

// hostConfig reads the user's agent settings.
func hostConfig(h host.Host, agent string, opts Options) (*agentconfig.Files, error) {
	if opts.NoHostConfig {
		return &agentconfig.Files{}, nil
	}
	files, err := agentconfig.Collect(agent, h.Home, h.LookupEnv)
	if err != nil {
		return nil, err
	}
	for _, dir := range files.Missing {
		h.ReportDebug(fmt.Sprintf("no settings of %s in %s", agent, dir))
	}
	return files, nil
}

// configCommand is the hidden command that copies agent settings, and runs another.
const configCommand = "_host-config"

// stageConfig copies the user's agent settings to the directory that is mounted in the sandbox.
// It returns the command that copies them from there to the agent's home, where changes are
// lost, and runs another; nil for none. It does nothing while another command runs there.
func stageConfig(ctx context.Context, h host.Host, r Ready, sb lifecycle.Sandbox, files *agentconfig.Files) ([]string, error) {
	if files == nil {
		return nil, nil
	}
	staging, err := agentconfig.StagingAt(sb.Config, r.Kind, sb.Name)
	if err != nil {
		return nil, err
	}
	note, err := staging.Note()
	if err != nil {
		return nil, fmt.Errorf("reading which agent settings %s has: %w", sb.Name, err)
	}
	was, id, _ := strings.Cut(strings.TrimSuffix(note, "\n"), " ")
	known := was != "" && id == sb.ID // which is empty where a driver has none
	if files.Empty() && !known || !commits.Idle(ctx, r.Driver, sb) {
		return nil, nil
	}
	name, err := stage(ctx, staging, files)
	if d, is := r.Driver.(*container.Driver); is && sb.Clone && err == nil {
		err = d.CopyConfig(ctx, sb, staging.Shown(), name)
	}
	if err != nil {
		return nil, hint.Wrap(fmt.Errorf("copying your agent settings for sandbox %s: %w", sb.Name, err), "pass --no-host-config to run without them")
	}
	digest := files.Digest()
	if !known || was != digest {
		for _, what := range files.Notes {
			h.Report("Warning: " + host.Quote(what))
		}
	}
	if err := staging.WriteNote(digest + " " + sb.ID + "\n"); err != nil {
		return nil, fmt.Errorf("recording the agent settings of %s: %w", sb.Name, err)
	}
	return []string{wire.Program, configCommand, path.Join(sb.ConfigAt, name)}, nil
}

func stage(ctx context.Context, staging agentconfig.Staging, files *agentconfig.Files) (name string, err error) {
	unlock, err := staging.Lock(ctx)
	if err != nil {
		return "", err
	}
	defer unlock()
	return staging.Put(files)
}
