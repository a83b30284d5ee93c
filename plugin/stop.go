package plugin

import (
	"github.com/spf13/cobra"

	"github.com/docker-ralph/docker-ralph/lifecycle/dispatch"
)

func newStopCommand(d dispatcher) *cobra.Command {
	var opts dispatch.SandboxStop
	cmd := &cobra.Command{
		Use:   "stop [OPTIONS] [SANDBOX...]",
		Short: "End the loop after its task, and stop the sandbox",
		Long: `Ask the loop in the sandbox of this work tree and branch, or in the sandboxes that
are named, to end after the task that it is at. Wait for that, say how it ended, and
stop the sandbox. With --now everything in the sandbox is ended at once. Commits that
are in the sandbox alone are brought into the repository first.

The sandbox is kept: the next command starts it again.`,
		ValidArgsFunction: d.completeSandboxes,
		RunE: func(cmd *cobra.Command, args []string) error {
			host, err := d.host(cmd, cmd.Name())
			if err != nil {
				return err
			}
			opts.Names = args
			return dispatch.StopSandboxes(cmd.Context(), host, opts)
		},
	}
	cmd.Flags().BoolVar(&opts.Now, "now", false, "End all that runs there at once")
	return cmd
}
