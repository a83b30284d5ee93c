package plugin

import (
	"github.com/docker/cli/cli"
	"github.com/spf13/cobra"

	"github.com/docker-ralph/docker-ralph/lifecycle/dashboard"
)

func newReportCommand(d dispatcher) *cobra.Command {
	var opts dashboard.ReportOptions
	cmd := &cobra.Command{
		Use:   "report [OPTIONS]",
		Short: "Export the web dashboard to an HTML file",
		Long: `Export the web dashboard to a single HTML file, which needs no server: tasks, runs,
costs, diffs and the end of each run's output. The data comes from the logs of loops;
the sandboxes need not exist.

The default file is written to the current directory, and git ignores it there. Others
in a worktree are uncommitted files of yours.`,
		Args:              cli.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			h, err := d.host(cmd, cmd.Name())
			if err != nil {
				return err
			}
			return dashboard.Report(cmd.Context(), h, opts)
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&opts.All, "all", "a", false, "Include the sandboxes of all repositories")
	flags.StringVarP(&opts.File, "output", "o", dashboard.DefaultReport, `Write to a file ("-" for standard output)`)
	return cmd
}
