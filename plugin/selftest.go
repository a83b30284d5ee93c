package plugin

import (
	"errors"

	"github.com/docker/cli/cli"
	"github.com/spf13/cobra"

	"github.com/docker-ralph/docker-ralph/lifecycle/dispatch"
)

// newSelfTestCommand makes the command that proves this machine.
func newSelfTestCommand(d dispatcher) *cobra.Command {
	var driver, format string
	cmd := &cobra.Command{
		Use:   "selftest [OPTIONS]",
		Short: "Try whether sandboxes work on this machine",
		Long: `Do all that a loop needs, one thing after another, and tell how each went: ask
the engine and its BuildKit, choose the driver, make sure of the agent's image
and of the one that the current folder asks for, make a sandbox, run ralph in
it, have it make a commit, and clean up. The sandbox and its repository are made
for this; yours are not touched, and you need not be in one. The images stay, as
the next loop needs them.

The exit code is 1 when something does not work.`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			show, err := newResultPrinter(format, d.cli.Out())
			if err != nil {
				return err
			}
			host, err := d.host(cmd, cmd.Name())
			if err != nil {
				return err
			}
			over := d.options.overrides()
			if cmd.Flags().Changed("driver") {
				over.Driver = &driver
			}
			show.begin()
			err = dispatch.SelfTest(cmd.Context(), host, over, show.add)
			return errors.Join(err, show.end())
		},
	}
	cmd.Flags().StringVar(&driver, "driver", "", `Kind of sandbox: "auto", "sbx", "docker-sandbox" or "container"`)
	cmd.Flags().StringVar(&format, "format", "table", `How results are printed: "table" or "json"`)
	_ = cmd.RegisterFlagCompletionFunc("driver", completeDrivers)
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions([]string{"table", "json"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}
