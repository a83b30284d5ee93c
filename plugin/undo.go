package plugin

import (
	"fmt"
	"strings"

	"github.com/docker/cli/cli"
	"github.com/spf13/cobra"

	"github.com/docker-ralph/docker-ralph/lifecycle/manage"
)

func newUndoCommand(d dispatcher) *cobra.Command {
	var opts manage.UndoOptions
	cmd := &cobra.Command{
		Use:   "undo [OPTIONS] [LOOP]",
		Short: "Take back the commits of a loop",
		Long: `Take back the commits of the last loop of this branch, or of the one with that ID, and
reopen the tasks that it has completed. Your branch moves back to the commit before
the loop, if it has only commits of the loop since; they stay at a ref. The sandbox
follows with its next command.

Your uncommitted changes stay. Nothing is changed if they are in the way.`,
		Args:              cli.RequiresMaxArgs(1),
		ValidArgsFunction: d.completeLoops,
		RunE: func(cmd *cobra.Command, args []string) error {
			target, err := d.loopTarget(nil)
			if err != nil {
				return err
			}
			h, err := d.host(cmd, cmd.Name())
			if err != nil {
				return err
			}
			opts.Worktree, opts.Loop = target.Worktree, strings.Join(args, "")
			said, err := manage.Undo(cmd.Context(), h, opts)
			for _, line := range said {
				_, _ = fmt.Fprintln(d.cli.Out(), line)
			}
			return err
		},
	}
	cmd.Flags().BoolVarP(&opts.Force, "force", "f", false, "Do not prompt for confirmation")
	cmd.Flags().BoolVar(&opts.DryRun, "dry-run", false, "Print what would be taken back")
	return cmd
}
