package plugin

import (
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/docker/cli/cli"
	"github.com/spf13/cobra"

	"github.com/docker-ralph/docker-ralph/lifecycle/manage"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

func newDiffCommand(d dispatcher) *cobra.Command {
	var stat, nameOnly bool
	cmd := &cobra.Command{
		Use:   "diff [OPTIONS] [SANDBOX]",
		Short: "Show uncommitted changes in the sandbox",
		Long: `Show the uncommitted changes in the sandbox of this worktree and branch, or in the
named one, if it has a clone of the worktree. New files are included, ignored ones
are not. New commits are fetched first.

"docker ralph apply" brings the changes into your worktree.`,
		Args:              cli.RequiresMaxArgs(1),
		ValidArgsFunction: d.completeSandboxes,
		RunE: func(cmd *cobra.Command, args []string) error {
			h, err := d.host(cmd, cmd.Name())
			if err != nil {
				return err
			}
			var options []string
			switch {
			case nameOnly:
				options = []string{"--name-only"}
			case stat:
				options = []string{"--stat"}
			case !d.cli.Out().IsTerminal():
				options = []string{"--binary"} // for git apply
			}
			show, err := manage.Diff(cmd.Context(), h, args, options...)
			if err != nil || show == nil {
				return err
			}
			return d.show(show)
		},
	}
	cmd.Flags().BoolVar(&stat, "stat", false, "Show the number of changed lines by file")
	cmd.Flags().BoolVar(&nameOnly, "name-only", false, "Show the names of the files only")
	cmd.MarkFlagsMutuallyExclusive("stat", "name-only")
	return cmd
}

// show runs a git command that may start a pager, which the user can quit before git has ended.
func (d dispatcher) show(show *exec.Cmd) error {
	show.Stdin, show.Stdout, show.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := show.Run()
	if _, ended := errors.AsType[*exec.ExitError](err); ended && d.cli.Out().IsTerminal() {
		return nil
	}
	return err
}

func newApplyCommand(d dispatcher) *cobra.Command {
	return &cobra.Command{
		Use:   "apply [SANDBOX]",
		Short: "Bring uncommitted changes of the sandbox into your worktree",
		Long: `Bring the uncommitted changes in the sandbox of this worktree and branch, or in the
named one, into your worktree, if the sandbox has a clone of it. They stay
uncommitted on both sides. New commits are fetched first.

Nothing is applied if a file would be overwritten that you have changed, or that git
does not know. Ignored files and repositories in subdirectories are left out.`,
		Args:              cli.RequiresMaxArgs(1),
		ValidArgsFunction: d.completeSandboxes,
		RunE: func(cmd *cobra.Command, args []string) error {
			h, err := d.host(cmd, cmd.Name())
			if err != nil {
				return err
			}
			paths, err := manage.Apply(cmd.Context(), h, args)
			if err != nil {
				return err
			}
			for _, path := range paths {
				_, _ = fmt.Fprintln(d.cli.Out(), termsafe.Name(path))
			}
			if len(paths) == 0 {
				h.Report("Nothing to apply: the sandbox has no uncommitted changes")
			}
			return nil
		},
	}
}
