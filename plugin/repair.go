package plugin

import (
	"github.com/spf13/cobra"

	"github.com/docker-ralph/docker-ralph/lifecycle/run"
)

func newRepairCommand(d dispatcher) *cobra.Command {
	return &cobra.Command{
		Use:        "repair [SANDBOX...]",
		SuggestFor: []string{"restart"},
		Short:      "Repair sandboxes",
		Long: `Repair the sandbox of this worktree and branch, or the named sandboxes: start or
unpause it, restart it if it cannot start processes, replace its proxy, restore its
network, and fetch its commits.

Loops repair their sandbox automatically. Files, commits and the backlog are kept.
Running processes end only if the sandbox has to be restarted.`,
		ValidArgsFunction: d.completeSandboxes,
		RunE: func(cmd *cobra.Command, args []string) error {
			h, err := d.host(cmd, cmd.Name())
			if err != nil {
				return err
			}
			return run.RepairSandboxes(cmd.Context(), h, args)
		},
	}
}
