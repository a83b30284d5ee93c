package plugin

import (
	"context"
	"io"
	"time"

	"github.com/docker/cli/cli"
	"github.com/docker/cli/cli/command/formatter"
	"github.com/spf13/cobra"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/manage"
)

func newStatusCommand(d dispatcher) *cobra.Command {
	var show showOptions
	cmd := &cobra.Command{
		Use:        "status [OPTIONS]",
		SuggestFor: []string{"inspect", "info"},
		Short:      "Show the status of this branch's sandbox",
		Long: `Show the sandbox of this repository and branch and its loop: activity, task, tokens
and cost against their limits, questions, blocked hosts, and commits not yet fetched.`,
		Args:              cli.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return d.showStatus(cmd, show)
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&show.watch, "watch", "w", false, "Refresh the output until interrupted")
	addTextFormat(cmd, &show.format)
	return cmd
}

func (d dispatcher) showStatus(cmd *cobra.Command, show showOptions) error {
	target, err := d.loopTarget(nil)
	if err != nil {
		return err
	}
	if err := writeStatus(io.Discard, show.format, manage.SandboxStatus{}); err != nil {
		return err
	}
	h, err := d.host(cmd, cmd.Name())
	if err != nil {
		return err
	}
	v := view{
		collect: func(ctx context.Context, h host.Host) ([]manage.SandboxStatus, error) {
			s, err := manage.Status(ctx, h, target.Worktree, !show.watch)
			return []manage.SandboxStatus{s}, err
		},
		show: func(out io.Writer, list []manage.SandboxStatus) error { return writeStatus(out, show.format, list[0]) },
	}
	if show.format == formatter.JSONFormatKey {
		v.json = func(list []manage.SandboxStatus) any { return list[0] }
	}
	return v.run(cmd.Context(), h, d.cli.Out(), show.watch)
}

func writeStatus(out io.Writer, format string, s manage.SandboxStatus) error {
	if format == "" {
		_, err := io.WriteString(out, statusText(s, time.Now()))
		return err
	}
	return sandboxListing(format, false, nil).writeEach(out, s)
}
