package plugin

import (
	"fmt"

	"github.com/docker/cli/cli"
	"github.com/docker/cli/cli/command"
	"github.com/spf13/cobra"
)

func newVersionCommand(dockerCLI command.Cli, version string) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the docker-ralph version information",
		Args:  cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(dockerCLI.Out(), "docker-ralph version %s\n", version)
			return err
		},
	}
}
