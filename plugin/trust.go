package plugin

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/docker/cli/cli"
	"github.com/docker/cli/cli/command"
	"github.com/spf13/cobra"

	"github.com/docker-ralph/docker-ralph/lifecycle/dispatch"
)

type trustOptions struct {
	dir, stateDir string
	revoke        bool
	out           io.Writer
}

func newTrustCommand(dockerCLI command.Cli) *cobra.Command {
	opts := trustOptions{}
	cmd := &cobra.Command{
		Use:   "trust [OPTIONS]",
		Short: "Approve what this repository's ralph.toml asks for",
		Long: `Show the settings of this repository's ralph.toml that give it more than it has
by default, and approve exactly these. When the file asks for something else
later, it has to be approved again.`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := os.Getwd()
			if err != nil {
				return fmt.Errorf("finding the current directory: %w", err)
			}
			opts.dir, opts.stateDir, opts.out = dir, stateDir(dockerCLI.ConfigFile()), dockerCLI.Out()
			return runTrust(cmd.Context(), opts)
		},
	}
	cmd.Flags().BoolVar(&opts.revoke, "revoke", false, "Take every approval of this repository back")
	return cmd
}

func runTrust(ctx context.Context, opts trustOptions) error {
	message, err := dispatch.Trust(ctx, opts.dir, opts.stateDir, opts.revoke)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(opts.out, message)
	return err
}
