package plugin

import (
	"errors"
	"fmt"
	"os"

	"github.com/docker/cli/cli/command"
	"github.com/docker/cli/cli/debug"
	"github.com/spf13/cobra"

	"github.com/docker-ralph/docker-ralph/config/runflags"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/approval"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/run"
	"github.com/docker-ralph/docker-ralph/projectimage"
)

// dispatcher runs commands with the options before them.
type dispatcher struct {
	cli        command.Cli
	interrupts *Interrupts
	options    *options
	version    string
}

// run runs a command in the sandbox.
func (d dispatcher) run(cmd *cobra.Command, f *forwarded) error {
	name := f.Name
	worktree, err := d.options.worktree.wanted()
	if err != nil {
		return err
	}
	ready, err := openBackground()
	if err != nil {
		return err
	}
	if d.options.detach && ready == nil && !d.options.dryRun {
		return d.detach(cmd.Context(), name)
	}
	h, err := d.host(cmd, name)
	if err != nil {
		return err
	}
	raw, err := d.fitStreams(&h, f)
	if err != nil {
		return err
	}
	opts := run.Options{
		Command:      name,
		Args:         f.args,
		Overrides:    d.options.overrides(),
		Recreate:     d.options.recreate || d.options.rebuild,
		Rebuild:      d.options.rebuild,
		Move:         d.options.move,
		CredScan:     d.options.credScan.value,
		Worktree:     worktree,
		Raw:          raw,
		AnyCode:      name == runflags.Run || name == runflags.Shell,
		NoHostConfig: d.options.noHostConfig,
		RequireClean: d.options.requireClean,
		WithChanges:  d.options.withChanges,
	}
	ctx := cmd.Context()
	if d.options.dryRun {
		return run.DryRun(ctx, h, opts)
	}
	if host.IsLoop(name) && canDetach {
		ctx = d.detachable(ctx, &h, ready)
	}
	code, err := run.Run(ctx, h, opts)
	if errors.Is(err, lifecycle.ErrDetached) {
		return nil
	}
	return ended(code, err)
}

// host returns the host for a command. Before any but "trust", the user is asked about a repository
// that an agent could have created around the current directory.
func (d dispatcher) host(cmd *cobra.Command, name string) (host.Host, error) {
	h, err := d.newHost(cmd, name)
	if err == nil && name != "trust" {
		err = approval.CheckNested(cmd.Context(), h)
	}
	return h, err
}

// newHost returns the host for a command, of which it reads nothing yet.
func (d dispatcher) newHost(cmd *cobra.Command, name string) (host.Host, error) {
	if err := requireDocker(); err != nil {
		return host.Host{}, err
	}
	dir, err := os.Getwd()
	if err != nil {
		return host.Host{}, fmt.Errorf("finding the current directory: %w", err)
	}
	mode, err := progressMode(d.options.progress.value)
	if err != nil {
		return host.Host{}, err
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = "" // no home directory, no agent settings
	}
	cfg, globals := d.cli.ConfigFile(), dockerGlobals(cmd)
	in := newInput(untilLost(os.Stdin, d.interrupts.Lost()))
	h := host.Host{
		Engine:        d.engine,
		ConnectTo:     d.connectTo,
		Docker:        dockerProgram(),
		DockerGlobals: globals,
		HasPlugin:     func(plugin string) bool { return hasPlugin(d.cli, plugin) },
		Attacher:      ourselves(cfg, globals, "attach"),
		Notifier:      ourselves(cfg, globals, notifyCommand),
		Dir:           dir,
		Home:          home,
		StateDir:      stateDir(cfg),
		LookupEnv:     os.LookupEnv,
		Version:       d.version,
		Confirm:       confirmer(d.cli, in),
		Ask:           asker(d.cli, in),
		Forward:       d.interrupts.Forward,
		Credentials:   projectimage.ReadCredentials(cfg),
		Progress:      projectimage.Progress{Mode: mode, Out: progressOut(d.cli)},
		ProxyArgs:     func(engine string) map[string]*string { return cfg.ParseProxyConfig(engine, nil) },
		// The files that the Docker CLI's streams wrap, for other programs.
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
	}
	h.Selected, h.SelectedBy = d.selected(cmd)
	if debug.IsEnabled() {
		h.Debug = func(message string) { _, _ = fmt.Fprintln(d.cli.Err(), message) }
	}
	switch {
	case d.cli.In().IsTerminal() && d.cli.Out().IsTerminal():
		h.Terminal, h.Stdin = newTerminal(d.cli), in
	case d.cli.In().IsTerminal() && (name == "task" || name == runflags.Shell):
		h.Stdin = in
	case d.cli.In().IsTerminal():
		// Loops read nothing, and reading the terminal in the background would
		// stop them.
		h.Stdin = nil
	}
	return h, nil
}
