package plugin

import (
	"fmt"
	"io"

	"github.com/docker/cli/cli"
	"github.com/docker/cli/cli/command/formatter"
	"github.com/spf13/cobra"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/lifecycle/approval"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

func newConfigCommand(d dispatcher) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "config [OPTIONS]",
		Short: "Show the effective configuration",
		Long: `Show all settings with their values and origins: default, ralph.toml, your own
configuration, environment variable or flag.`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := writeValues(io.Discard, format, nil); err != nil {
				return err
			}
			h, err := d.host(cmd, cmd.Name())
			if err != nil {
				return err
			}
			values, err := approval.Values(cmd.Context(), h, d.options.overrides())
			if err != nil {
				return err
			}
			return writeValues(d.cli.Out(), format, values)
		},
	}
	addTemplateFormat(cmd, &format)
	cmd.AddCommand(&cobra.Command{
		Use:   "edit",
		Short: "Edit your configuration",
		Long: `Open your own configuration, which applies to all repositories, in $VISUAL or $EDITOR.
It is validated before it is saved.`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			h, err := d.host(cmd, cmd.Name())
			if err != nil {
				return err
			}
			return approval.EditConfig(cmd.Context(), h)
		},
	}, &cobra.Command{
		Use:        "init",
		SuggestFor: []string{"init"},
		Short:      "Create a commented ralph.toml",
		Args:       cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			h, err := d.host(cmd, cmd.Name())
			if err != nil {
				return err
			}
			path, err := approval.InitConfig(cmd.Context(), h)
			if err == nil {
				_, err = fmt.Fprintln(d.cli.Out(), path)
			}
			return err
		},
	})
	return cmd
}

type valueRow struct {
	noHeader
	Key, Value, Origin string
}

func writeValues(out io.Writer, format string, values []config.Value) error {
	return listing[config.Value]{
		format: format, table: "table {{.Key}}\t{{.Value}}\t{{.Origin}}",
		headings: headings{"Key": "KEY", "Value": "VALUE", "Origin": "ORIGIN"},
		row: func(v config.Value) formatter.SubContext {
			return valueRow{Key: termsafe.Line(v.Key), Value: termsafe.Line(v.Value), Origin: termsafe.Line(v.Origin)}
		},
	}.write(out, values)
}
