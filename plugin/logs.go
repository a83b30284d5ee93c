package plugin

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/docker/cli/cli"
	"github.com/spf13/cobra"

	"github.com/docker-ralph/docker-ralph/lifecycle/manage"
	"github.com/docker-ralph/docker-ralph/lifecycle/run"
)

func newLogsCommand(d dispatcher) *cobra.Command {
	var opts manage.LogOptions
	cmd := &cobra.Command{
		Use:   "logs [OPTIONS] [run|shell|task]",
		Short: "Fetch the logs of this branch's last loop",
		Long: `Fetch the logs of the last loop of this repository and branch, or of the last "run",
"shell" or "task" command in this worktree. With --follow, the exit code is that of
the loop.`,
		Args:      cobra.MatchAll(cli.RequiresMaxArgs(1), cobra.OnlyValidArgs),
		ValidArgs: run.Transcribed(),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Command = strings.Join(args, "")
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
	flags := cmd.Flags()
	flags.BoolVarP(&opts.Follow, "follow", "f", false, "Follow log output")
	flags.IntVar(&opts.Iteration, "iteration", 0, "Show this iteration only")
	flags.BoolVar(&opts.Raw, "raw", false, "Show the unformatted output of the agent")
	_ = cmd.RegisterFlagCompletionFunc("iteration", cobra.NoFileCompletions)
	return cmd
}

// ended turns the end of a loop into that of the command.
func ended(code int, err error) error {
	if err == nil && code != 0 {
		return cli.StatusError{StatusCode: code}
	}
	return err
}
