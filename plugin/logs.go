package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/docker/cli/cli"
	"github.com/spf13/cobra"

	"github.com/docker-ralph/docker-ralph/lifecycle/commits"
	"github.com/docker-ralph/docker-ralph/lifecycle/manage"
	"github.com/docker-ralph/docker-ralph/lifecycle/run"
)

func newLogsCommand(d dispatcher) *cobra.Command {
	var opts manage.LogOptions
	cmd := &cobra.Command{
		Use:   "logs [OPTIONS] [SANDBOX] [run|shell]",
		Short: "Fetch the logs of a loop",
		Long: `Fetch the logs of the last loop of this repository and branch, or of a sandbox; or of
the last "run" or "shell" command in its worktree. With --follow, the exit
code is that of the loop.`,
		Args: cli.RequiresMaxArgs(2),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			names, directive := d.completeSandbox(cmd, args, typed)
			if len(args) < 2 && !slices.ContainsFunc(args, isTranscribed) {
				names = append(run.Transcribed(), names...)
			}
			return names, directive
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if n := len(args); n > 0 && isTranscribed(args[n-1]) {
				opts.Command, args = args[n-1], args[:n-1]
			}
			if len(args) > 1 {
				return fmt.Errorf("invalid argument %q: use one of %s", args[1], strings.Join(run.Transcribed(), ", "))
			}
			var err error
			if opts.LoopTarget, err = d.loopTarget(args); err != nil {
				return err
			}
			if cmd.Flags().Changed("iteration") && opts.Iteration < 1 {
				return fmt.Errorf("invalid iteration %d: the first one is 1", opts.Iteration)
			}
			h, err := d.host(cmd, cmd.Name())
			if err != nil {
				return err
			}
			opts.Plain = !d.cli.Out().IsTerminal()
			code, err := manage.Logs(cmd.Context(), h, opts)
			if opts.Follow && errors.Is(err, context.Canceled) {
				return cli.StatusError{StatusCode: ExitCode} // the loop goes on
			}
			return ended(code, err)
		},
	}
	d.addLoopLogFlags(cmd, &opts.LoopLog, "Follow log output")
	flags := cmd.Flags()
	flags.IntVar(&opts.Iteration, "iteration", 0, "Show this iteration only")
	flags.BoolVar(&opts.Raw, "raw", false, "Show the unformatted output of the agent")
	_ = cmd.RegisterFlagCompletionFunc("iteration", cobra.NoFileCompletions)
	return cmd
}

// completeSandbox offers sandboxes for the first argument.
func (d dispatcher) completeSandbox(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return d.completeSandboxes(cmd, args, typed)
}

func isTranscribed(arg string) bool { return slices.Contains(run.Transcribed(), arg) }

// loopTarget returns the loop that the user means: that of a named sandbox, of --worktree, or
// of the current branch.
func (d dispatcher) loopTarget(sandbox []string) (manage.LoopTarget, error) {
	worktree, err := d.options.worktree.wanted()
	switch {
	case err != nil:
		return manage.LoopTarget{}, err
	case worktree != nil && len(sandbox) > 0:
		return manage.LoopTarget{}, errors.New("pass a sandbox or --worktree, not both")
	case worktree != nil && worktree.Name == "":
		return manage.LoopTarget{}, errors.New("--worktree requires a name here")
	}
	return manage.LoopTarget{Sandbox: strings.Join(sandbox, ""), Worktree: worktree}, nil
}

// ended turns the end of a loop into that of the command.
func ended(code int, err error) error {
	if _, is := errors.AsType[*commits.UnmergedError](err); is {
		return cli.StatusError{Cause: err, StatusCode: code}
	}
	if err == nil && code != 0 {
		return cli.StatusError{StatusCode: code}
	}
	return err
}
