package plugin

import (
	"errors"

	"github.com/docker/cli/cli"
	"github.com/spf13/cobra"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/manage"
)

func newAttachCommand(d dispatcher) *cobra.Command {
	return &cobra.Command{
		Use:   "attach [OPTIONS] [SANDBOX]",
		Short: "Attach to a background loop",
		Long: `Attach to the background loop of this repository and branch, or of a sandbox: print
its output and pass on Ctrl+C. The exit code is that of the loop. Press Ctrl+P,
Ctrl+Q, or the detach keys of Docker's configuration, to detach again.`,
		Args:              cli.RequiresMaxArgs(1),
		ValidArgsFunction: d.completeSandbox,
		RunE: func(cmd *cobra.Command, args []string) error {
			target, err := d.loopTarget(args)
			if err != nil {
				return err
			}
			h, err := d.host(cmd, cmd.Name())
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			if canDetach {
				ctx = d.detachable(ctx, &h, nil)
			}
			code, err := manage.Attach(ctx, h, target)
			if errors.Is(err, lifecycle.ErrDetached) {
				return nil
			}
			return ended(code, err)
		},
	}
}
