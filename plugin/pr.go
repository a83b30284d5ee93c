package plugin

import (
	"github.com/docker/cli/cli"
	"github.com/spf13/cobra"

	"github.com/docker-ralph/docker-ralph/lifecycle/pullrequest"
)

func newPullRequestCommand(d dispatcher) *cobra.Command {
	var opts pullrequest.Options
	cmd := &cobra.Command{
		Use:   "pr [OPTIONS]",
		Short: "Push the branch and open a pull request",
		Long: `Push the current branch to origin, and open a draft pull request with "gh", or a merge
request with "glab". Without the program, print the URL to open. The description lists
the tasks of the branch with their checks, models and costs.

Hooks of git are not run.`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			target, err := d.loopTarget(nil)
			if err != nil {
				return err
			}
			h, err := d.host(cmd, cmd.Name())
			if err != nil {
				return err
			}
			opts.Worktree = target.Worktree
			return pullrequest.Open(cmd.Context(), h, opts)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&opts.Draft, "draft", true, "Open a draft")
	flags.StringVar(&opts.Title, "title", "", "Title (default that of the task, or the branch)")
	flags.StringVar(&opts.Base, "base", "", "Branch to merge into (default that of origin)")
	flags.BoolVar(&opts.DryRun, "dry-run", false, "Print the title and the description only")
	_ = cmd.RegisterFlagCompletionFunc("title", cobra.NoFileCompletions)
	_ = cmd.RegisterFlagCompletionFunc("base", completeBranches)
	return cmd
}
