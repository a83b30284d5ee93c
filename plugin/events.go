package plugin

import (
	"context"
	"errors"

	"github.com/docker/cli/cli"
	"github.com/spf13/cobra"

	"github.com/docker-ralph/docker-ralph/lifecycle/manage"
)

func newEventsCommand(d dispatcher) *cobra.Command {
	var opts manage.EventOptions
	cmd := &cobra.Command{
		Use:   "events [OPTIONS] [SANDBOX]",
		Short: "Print the events of a loop as JSON lines",
		Long: `Print the event log of the last loop of this repository and branch, or of a sandbox,
one JSON object per line, oldest first. With --follow, new events are printed until
the loop ends, and the exit code is that of the loop.`,
		Args:              cli.RequiresMaxArgs(1),
		ValidArgsFunction: d.completeSandbox,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if opts.LoopTarget, err = d.loopTarget(args); err != nil {
				return err
			}
			h, err := d.host(cmd, cmd.Name())
			if err != nil {
				return err
			}
			code, err := manage.Events(cmd.Context(), h, opts)
			if opts.Follow && errors.Is(err, context.Canceled) {
				return cli.StatusError{StatusCode: ExitCode} // the loop goes on
			}
			return ended(code, err)
		},
	}
	d.addLoopLogFlags(cmd, &opts.LoopLog, "Follow new events")
	return cmd
}

// addLoopLogFlags adds the options of commands that read the log of a loop.
func (d dispatcher) addLoopLogFlags(cmd *cobra.Command, log *manage.LoopLog, follow string) {
	flags := cmd.Flags()
	flags.BoolVarP(&log.Follow, "follow", "f", false, follow)
	flags.StringVar(&log.Loop, "loop", "", "Show this loop instead of the last one (see ls --loops)")
	_ = cmd.RegisterFlagCompletionFunc("loop", d.completeLoops)
}
