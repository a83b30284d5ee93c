package plugin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/docker/cli/cli"
	"github.com/spf13/cobra"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/manage"
	"github.com/docker-ralph/docker-ralph/plugin/top"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

func newTopCommand(d dispatcher) *cobra.Command {
	return &cobra.Command{
		Use:   "top",
		Short: "Monitor all sandboxes in the terminal",
		Long: `Monitor your sandboxes on all engines and the output of their loops. Those that need
your attention come first. Keys attach to a loop, reply to questions, stop a sandbox,
show its commits, and list the sandboxes of others, too: press ? for help.`,
		Args:              cli.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return d.showTop(cmd)
		},
	}
}

func (d dispatcher) showTop(cmd *cobra.Command) error {
	if !d.cli.In().IsTerminal() || !d.cli.Out().IsTerminal() {
		return hint.Wrap(errors.New("docker ralph top requires a terminal"), "list sandboxes with %q", "docker ralph ls --all --watch")
	}
	h, err := d.host(cmd, cmd.Name())
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	model := top.New(ctx, topBackend(ctx, h), os.Getenv("NO_COLOR") == "")
	_, err = tea.NewProgram(model, tea.WithContext(ctx), tea.WithoutSignalHandler()).Run()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("running the terminal interface: %w", err)
	}
	return nil
}

func topBackend(ctx context.Context, h host.Host) top.Backend {
	return top.Backend{
		Collect: func(ctx context.Context) ([]manage.SandboxStatus, string, error) {
			var warnings bytes.Buffer
			h := h
			h.Stderr = &warnings
			list, err := manage.Sandboxes(ctx, h, manage.ListOptions{All: true})
			first, _, _ := strings.Cut(warnings.String(), "\n")
			return list, termsafe.Line(first), err
		},
		Ralph: func(dir string, args ...string) *exec.Cmd {
			cmd := exec.CommandContext(ctx, h.Docker, slices.Concat(h.DockerGlobals, []string{"ralph"}, args)...)
			cmd.Dir = dir
			cmd.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool {
				return strings.HasPrefix(kv, "DOCKER_CLI_PLUGIN_") // of this process
			})
			return cmd
		},
		Log:  func(dir string) (*exec.Cmd, error) { return show(ctx, dir, gitrepo.Git.Log) },
		Diff: func(dir string) (*exec.Cmd, error) { return show(ctx, dir, gitrepo.Git.Diff) },
	}
}

func show(ctx context.Context, dir string, command func(gitrepo.Git, context.Context) (*exec.Cmd, error)) (*exec.Cmd, error) {
	git, err := gitrepo.NewGit(dir)
	if err != nil {
		return nil, err
	}
	return command(git, ctx)
}
