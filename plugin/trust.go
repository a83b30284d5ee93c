package plugin

import (
	"github.com/docker/cli/cli"
	"github.com/spf13/cobra"

	"github.com/docker-ralph/docker-ralph/lifecycle/approval"
)

func newTrustCommand(d dispatcher) *cobra.Command {
	var revoke, force bool
	cmd := &cobra.Command{
		Use:   "trust [OPTIONS]",
		Short: "Approve the settings of this repository",
		Long: `Show what this repository requests beyond the defaults, and approve it: settings of
its ralph.toml, and the build of .agent-loop/Dockerfile.sandbox. Changed content
needs a new approval.

Without a terminal, nothing is approved unless --force is set.`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			h, err := d.host(cmd, "trust")
			if err != nil {
				return err
			}
			if revoke {
				return approval.Revoke(cmd.Context(), h)
			}
			return approval.Trust(cmd.Context(), h, force)
		},
	}
	cmd.Flags().BoolVar(&revoke, "revoke", false, "Revoke all approvals of this repository")
	cmd.Flags().BoolVarP(&force, "force", "f", false, "Do not prompt for confirmation")
	return cmd
}
