package plugin

import (
	"github.com/docker/cli/cli"
	"github.com/spf13/cobra"

	"github.com/docker-ralph/docker-ralph/lifecycle/dashboard"
)

func newReportCommand(d dispatcher) *cobra.Command {
	var opts dashboard.ReportOptions
	cmd := &cobra.Command{
		Use:   "report --html FILE",
		Short: "Write a report of loops as one HTML file",
		Long: `Write the page of "docker ralph serve" with its data to one file, which needs no
server: tasks, runs, costs, diffs and the end of each output. It works from the logs
in the worktrees, also without a sandbox.`,
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
	flags.BoolVarP(&opts.All, "all", "a", false, "Report the sandboxes of all repositories")
	flags.StringVar(&opts.File, "html", "", `File to write; "-" is the standard output`)
	_ = cmd.MarkFlagRequired("html")
	return cmd
}
