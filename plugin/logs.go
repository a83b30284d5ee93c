package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docker/cli/cli"
	"github.com/spf13/cobra"

	"github.com/docker-ralph/docker-ralph/lifecycle/commits"
	"github.com/docker-ralph/docker-ralph/lifecycle/manage"
	"github.com/docker-ralph/docker-ralph/lifecycle/run"
)

func newLogsCommand(d dispatcher) *cobra.Command {
	var opts manage.LogOptions
	var tail, since string
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
			if opts.Tail, err = parseTail(tail); err != nil {
				return err
			}
			if opts.Since, err = parseSince(since, time.Now()); err != nil {
				return err
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
	flags.StringVarP(&tail, "tail", "n", "all", "Number of lines to show from the end of the logs")
	flags.StringVar(&since, "since", "", `Show runs since a time (e.g., "42m", "2026-01-02T13:23:37")`)
	flags.BoolVar(&opts.Raw, "raw", false, "Show the unformatted output of the agent")
	for _, name := range []string{"iteration", "tail", "since"} {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
	}
	return cmd
}

// parseTail parses a number of lines. As in the Docker CLI, a negative one means all.
func parseTail(text string) (*int, error) {
	n, err := strconv.Atoi(text)
	switch {
	case text == "all" || err == nil && n < 0:
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("invalid --tail %q: use a number or \"all\"", text)
	}
	return &n, nil
}

// parseSince parses a time, or how long ago it is.
func parseSince(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil {
		return now.Add(-ago), nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("invalid --since %q: use a duration such as 42m, or a time such as 2026-01-02T13:23:37", text)
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
