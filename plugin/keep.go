package plugin

import (
	"github.com/docker/cli/cli"
	"github.com/docker/cli/cli/command"
	"github.com/spf13/cobra"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/run"
)

// keepCommand is the hidden command that we start ourselves.
const keepCommand = "_keep"

// newKeepCommand makes the command that keeps a microVM from being stopped as
// idle while a dispatch runs in it.
func newKeepCommand(dockerCLI command.Cli) *cobra.Command {
	return &cobra.Command{
		Use:    keepCommand + " DRIVER SANDBOX DISPATCH",
		Hidden: true,
		Args:   cli.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			return run.Keep(cmd.Context(), host.Host{
				StateDir:      stateDir(dockerCLI.ConfigFile()),
				Docker:        dockerProgram(),
				DockerGlobals: dockerGlobals(cmd),
			}, args[0], args[1], args[2])
		},
	}
}
