package plugin

import (
	"github.com/docker/cli/cli"
	"github.com/docker/cli/cli/command"
	"github.com/spf13/cobra"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

// keepCommand is a hidden command, see [host.Host.Keeper].
const keepCommand = "_keep"

// newKeepCommand creates the command that keeps a microVM awake while a command runs in it.
func newKeepCommand(dockerCLI command.Cli) *cobra.Command {
	return &cobra.Command{
		Use:    keepCommand + " DRIVER SANDBOX DISPATCH",
		Hidden: true,
		Args:   cli.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			h := host.Host{
				StateDir:      stateDir(dockerCLI.ConfigFile()),
				Docker:        dockerProgram(),
				DockerGlobals: dockerGlobals(cmd),
			}
			return h.MicroVM(args[0], nil).Keep(cmd.Context(), args[1], args[2])
		},
	}
}
