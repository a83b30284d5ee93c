package plugin

import (
	"errors"

	"github.com/docker/cli/cli"
	"github.com/spf13/cobra"

	"github.com/docker-ralph/docker-ralph/lifecycle/manage"
)

// newSelfTestCommand returns the command that checks this machine.
func newSelfTestCommand(d dispatcher) *cobra.Command {
	var driver, format string
	cmd := &cobra.Command{
		Use:        "selftest [OPTIONS]",
		SuggestFor: []string{"doctor"},
		Short:      "Check that sandboxes work on this machine",
		Long: `Check everything that a loop needs: the engine and BuildKit, the driver, the images,
a sandbox, ralph in it, a commit, and the cleanup. The sandbox and its repository
are temporary; the images are kept.

The exit code is 1 if a check fails.`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			show, err := newResultPrinter(format, d.cli.Out())
			if err != nil {
				return err
			}
			h, err := d.host(cmd, cmd.Name())
			if err != nil {
				return err
			}
			over := d.options.overrides()
			if cmd.Flags().Changed("driver") {
				over.Driver = &driver
			}
			show.begin()
			err = manage.SelfTest(cmd.Context(), h, over, show.add)
			return errors.Join(err, show.end())
		},
	}
	cmd.Flags().StringVar(&driver, "driver", "", `Sandbox driver ("auto", "sbx", "docker-sandbox", "container")`)
	addTextFormat(cmd, &format)
	_ = cmd.RegisterFlagCompletionFunc("driver", completeDrivers)
	return cmd
}
