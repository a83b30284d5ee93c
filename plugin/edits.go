package plugin

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/docker/cli/cli"
	"github.com/spf13/cobra"

	"github.com/docker-ralph/docker-ralph/lifecycle/manage"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

func newDiffCommand(d dispatcher) *cobra.Command {
	var stat, nameOnly bool
	var log manage.LoopLog
	cmd := &cobra.Command{
		Use:   "diff [OPTIONS] [SANDBOX] [RUN]",
		Short: "Show uncommitted changes, or the commits of a run",
		Long: `Show the uncommitted changes in the sandbox of this worktree and branch, or in the
named one, if it has a clone of the worktree. New files are included, ignored ones
are not. New commits are fetched first. "docker ralph apply" brings the changes into
your worktree.

With the number of a run, show the changes of its commits. It is a run of the last
loop, or of the one selected with --loop.`,
		Args:              cli.RequiresMaxArgs(2),
		ValidArgsFunction: d.completeSandbox,
		RunE: func(cmd *cobra.Command, args []string) error {
			args, run, err := splitRun(args)
			if err != nil {
				return err
			}
			if run == 0 && log.Loop != "" {
				return errors.New("--loop requires the number of a run")
			}
			if log.LoopTarget, err = d.loopTarget(args); err != nil {
				return err
			}
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
			var show *exec.Cmd
			if run > 0 {
				show, err = manage.DiffRun(cmd.Context(), h, log, run, options...)
			} else {
				show, err = manage.Diff(cmd.Context(), h, args, options...)
			}
			if err != nil || show == nil {
				return err
			}
			return d.show(show)
		},
	}
	cmd.Flags().BoolVar(&stat, "stat", false, "Show the number of changed lines by file")
	cmd.Flags().BoolVar(&nameOnly, "name-only", false, "Show the names of the files only")
	cmd.MarkFlagsMutuallyExclusive("stat", "name-only")
	cmd.Flags().StringVar(&log.Loop, "loop", "", "Select the loop of the run (see ls --loops)")
	_ = cmd.RegisterFlagCompletionFunc("loop", d.completeLoops)
	return cmd
}

// splitRun cuts the number of a run off the arguments; 0 for none.
func splitRun(args []string) (rest []string, run int, err error) {
	n := len(args)
	if n > 0 && strings.Trim(args[n-1], "0123456789") == "" {
		run, err = strconv.Atoi(args[n-1])
		args = args[:n-1]
		if err != nil || run < 1 {
			return nil, 0, errors.New("invalid number of a run: the first one is 1")
		}
	}
	if len(args) > 1 {
		return nil, 0, fmt.Errorf("invalid number of a run %q", args[1])
	}
	return args, run, nil
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
