package plugin

import (
	"errors"

	"github.com/docker/cli/cli"
	"github.com/spf13/cobra"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/dispatch"
)

func newAttachCommand(d dispatcher) *cobra.Command {
	return &cobra.Command{
		Use:   "attach",
		Short: "Take this branch's loop back that runs without a terminal",
		Long: `Show what a loop prints that runs without a terminal, and hand it Ctrl+C, as if it
had been started here. The exit code is that of the loop. The keys that detach
leave it running: Ctrl+P, Ctrl+Q, or what Docker's configuration says.`,
		Args:              cli.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			host, err := d.host(cmd, cmd.Name())
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			if canLetGo {
				ctx = d.mayLeave(ctx, &host, nil)
			}
			code, err := dispatch.Attach(ctx, host)
			if errors.Is(err, lifecycle.ErrDetached) {
				return nil
			}
			return ended(code, err)
		},
	}
}
