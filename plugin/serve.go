package plugin

import (
	"github.com/docker/cli/cli"
	"github.com/spf13/cobra"

	"github.com/docker-ralph/docker-ralph/lifecycle/dashboard"
)

func newServeCommand(d dispatcher) *cobra.Command {
	var opts dashboard.ServeOptions
	cmd := &cobra.Command{
		Use:   "serve [OPTIONS]",
		Short: "Serve a web dashboard of sandboxes and loops",
		Long: `Serve a web dashboard of the sandboxes of this repository: tasks, runs, costs, diffs
and live output. Print its URL, which is valid on this machine until the command ends.`,
		Args:              cli.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			h, err := d.host(cmd, cmd.Name())
			if err != nil {
				return err
			}
			return dashboard.Serve(cmd.Context(), h, opts)
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&opts.All, "all", "a", false, "Show the sandboxes of all repositories")
	flags.StringVar(&opts.Listen, "listen", "127.0.0.1:0", "Loopback address and port to listen on (port 0: any free port)")
	_ = cmd.RegisterFlagCompletionFunc("listen", cobra.NoFileCompletions)
	return cmd
}
