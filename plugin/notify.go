package plugin

import (
	"github.com/docker/cli/cli"
	"github.com/spf13/cobra"

	"github.com/docker-ralph/docker-ralph/lifecycle/notify"
)

// notifyCommand is a hidden command, see [host.Host.Notifier].
const notifyCommand = "_notify"

// newNotifyCommand creates the command that delivers notifications.
func newNotifyCommand(version string) *cobra.Command {
	return &cobra.Command{
		Use:    notifyCommand + " FILE",
		Hidden: true,
		Args:   cli.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return notify.Deliver(cmd.Context(), args[0], "docker-ralph/"+version)
		},
	}
}
