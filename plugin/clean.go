package plugin

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/docker-ralph/docker-ralph/lifecycle/manage"
)

func newCleanCommand(d dispatcher) *cobra.Command {
	var opts manage.CleanOptions
	cmd := &cobra.Command{
		Use:     "clean [OPTIONS] [SANDBOX...]",
		Aliases: []string{"rm"},
		Short:   "Remove sandboxes",
		Long: `Remove the sandbox of this worktree and branch, or the named sandboxes, with their
networks and proxies. With --all, remove all sandboxes of the repository and their
cache volume.

Worktrees, files, branches and commits are never removed. Commits that only a
sandbox has are fetched first. A sandbox is kept if that fails, or if it is in use.
That of another client is only removed by its name, with --discard-commits.`,
		ValidArgsFunction: d.completeSandboxes,
		RunE: func(cmd *cobra.Command, args []string) error {
			h, err := d.host(cmd, cmd.Name())
			if err != nil {
				return err
			}
			opts.Names = args
			removed, err := manage.CleanSandboxes(cmd.Context(), h, opts)
			for _, what := range removed {
				_, _ = fmt.Fprintln(d.cli.Out(), what)
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&opts.All, "all", "a", false, "Remove all sandboxes of the repository and their caches")
	flags.BoolVar(&opts.DiscardCommits, "discard-commits", false, "Discard commits that cannot be fetched")
	flags.BoolVarP(&opts.Force, "force", "f", false, "Do not prompt for confirmation")
	flags.BoolVar(&opts.DryRun, "dry-run", false, "Print what would be removed")
	return cmd
}
