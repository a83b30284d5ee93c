package plugin

import (
	"github.com/spf13/cobra"

	"github.com/docker-ralph/docker-ralph/lifecycle/dispatch"
)

func newRepairCommand(d dispatcher) *cobra.Command {
	return &cobra.Command{
		Use:   "repair [SANDBOX...]",
		Short: "Repair sandboxes",
		Long: `Repair the sandbox of this worktree and branch, or the sandboxes that are named.
Start or unpause it, restart it if no process can be started in it, replace its
proxy, restore its network, prepare it again, and fetch its commits.

Loops do so by themselves. Files, commits and the backlog are kept; a process that
runs in the sandbox ends only if the sandbox has to be restarted.`,
		ValidArgsFunction: d.completeSandboxes,
		RunE: func(cmd *cobra.Command, args []string) error {
			host, err := d.host(cmd, cmd.Name())
			if err != nil {
				return err
			}
			return dispatch.RepairSandboxes(cmd.Context(), host, args)
		},
	}
}
