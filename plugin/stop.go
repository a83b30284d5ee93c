package plugin

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/docker-ralph/docker-ralph/lifecycle/manage"
)

func newStopCommand(d dispatcher) *cobra.Command {
	var opts manage.StopOptions
	var timeout int
	cmd := &cobra.Command{
		Use:        "stop [OPTIONS] [SANDBOX...]",
		SuggestFor: []string{"kill"},
		Short:      "Stop the loop after its current run",
		Long: `Ask the loop of this worktree and branch, or of the named sandboxes, to end after its
current run, wait for it, and stop the sandbox. With --now, kill everything in the
sandbox; with --timeout, do so after that time. Commits that only the sandbox has are
fetched first.

The next command starts the sandbox again.`,
		ValidArgsFunction: d.completeSandboxes,
		RunE: func(cmd *cobra.Command, args []string) error {
			h, err := d.host(cmd, cmd.Name())
			if err != nil {
				return err
			}
			opts.Names = args
			if cmd.Flags().Changed("timeout") {
				opts.Timeout = stopTimeout(timeout)
			}
			return manage.StopSandboxes(cmd.Context(), h, opts)
		},
	}
	cmd.Flags().BoolVar(&opts.Now, "now", false, "Kill running commands")
	cmd.Flags().IntVarP(&timeout, "timeout", "t", 0, "Seconds to wait before killing running commands (default no limit)")
	_ = cmd.RegisterFlagCompletionFunc("timeout", cobra.NoFileCompletions)
	cmd.MarkFlagsMutuallyExclusive("now", "timeout")
	return cmd
}

// stopTimeout is the limit in seconds; a negative number means none, as in the Docker CLI.
func stopTimeout(seconds int) *time.Duration {
	if seconds < 0 {
		return nil
	}
	limit := time.Duration(seconds) * time.Second
	return &limit
}
