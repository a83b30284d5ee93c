package plugin

import (
	"github.com/spf13/cobra"

	"github.com/docker-ralph/docker-ralph/lifecycle/manage"
)

func newStopCommand(d dispatcher) *cobra.Command {
	var opts manage.StopOptions
	cmd := &cobra.Command{
		Use:        "stop [OPTIONS] [SANDBOX...]",
		SuggestFor: []string{"kill"},
		Short:      "Stop the loop after its current run",
		Long: `Ask the loop of this worktree and branch, or of the named sandboxes, to end after its
current run, wait for it, and stop the sandbox. With --now, kill everything in the
sandbox. Commits that only the sandbox has are fetched first.

The next command starts the sandbox again.`,
		ValidArgsFunction: d.completeSandboxes,
		RunE: func(cmd *cobra.Command, args []string) error {
			h, err := d.host(cmd, cmd.Name())
			if err != nil {
				return err
			}
			opts.Names = args
			return manage.StopSandboxes(cmd.Context(), h, opts)
		},
	}
	cmd.Flags().BoolVar(&opts.Now, "now", false, "Kill running commands")
	return cmd
}
