package plugin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/docker/cli/cli"
	"github.com/docker/cli/cli/command/formatter"
	"github.com/docker/cli/cli/command/formatter/tabwriter"
	"github.com/docker/go-units"
	"github.com/spf13/cobra"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/lifecycle/network"
)

// newNetworkCommand returns the commands for the network policy.
func newNetworkCommand(d dispatcher) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "network COMMAND",
		Short: "Manage the network policy of this branch's sandbox",
		Long: `Manage the network policy of the sandbox of this repository and branch. Set the
policy with --network, or in [sandbox.network] of ralph.toml.`,
		Args: knownCommand,
		RunE: needsCommand(d.cli),
	}
	cmd.AddCommand(newNetworkListCommand(d), newNetworkLogCommand(d),
		newNetworkAmendCommand(d, "allow", "Allow hosts", true),
		newNetworkAmendCommand(d, "deny", "Block hosts", false))
	return cmd
}

func newNetworkListCommand(d dispatcher) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "ls [OPTIONS]",
		Short: "List network rules",
		Long: `List the rules of the network policy, their origin, and the bytes transferred since
the sandbox was started.`,
		Args:              cli.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkFormat(format); err != nil {
				return err
			}
			h, err := d.host(cmd, cmd.Name())
			if err != nil {
				return err
			}
			network, err := network.Rules(cmd.Context(), h, d.options.overrides())
			if err != nil {
				return err
			}
			if format == formatter.JSONFormatKey {
				return writeJSON(d.cli.Out(), network)
			}
			return writeNetwork(d.cli.Out(), network)
		},
	}
	addFormat(cmd, &format)
	return cmd
}

func newNetworkLogCommand(d dispatcher) *cobra.Command {
	var format string
	var follow, all bool
	cmd := &cobra.Command{
		Use:               "log [OPTIONS]",
		Short:             "Show blocked connections",
		Args:              cli.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkFormat(format); err != nil {
				return err
			}
			h, err := d.host(cmd, cmd.Name())
			if err != nil {
				return err
			}
			var failed error
			err = network.Log(cmd.Context(), h, d.options.overrides(), all, follow, func(decision egress.Decision) {
				failed = errors.Join(failed, writeDecision(d.cli.Out(), format, decision))
			})
			return errors.Join(err, failed)
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "Follow log output")
	cmd.Flags().BoolVar(&all, "all", false, "Show allowed connections too")
	addFormat(cmd, &format)
	return cmd
}

func newNetworkAmendCommand(d dispatcher, name, short string, allow bool) *cobra.Command {
	return &cobra.Command{
		Use:   name + " HOST...",
		Short: short,
		Long: short + ` in the sandbox of this repository and branch, at once. Use the syntax
of ralph.toml: "example.com", "*.example.com", "example.com:8443", or
"db.example.com=10.0.0.0/8" for a host with a private address.`,
		Args:              cli.RequiresMinArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, hosts []string) error {
			h, err := d.host(cmd, cmd.Name())
			if err != nil {
				return err
			}
			return network.Amend(cmd.Context(), h, d.options.overrides(), allow, hosts)
		},
	}
}

// columnGap is that of docker's own tables.
const columnGap = 3

func writeNetwork(out io.Writer, network network.List) error {
	if _, err := fmt.Fprintf(out, "Policy: %s\n\n", network.Policy); err != nil {
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, columnGap, ' ', 0)
	_, _ = fmt.Fprintln(table, "HOST\tDECISION\tSENT\tRECEIVED\tORIGIN")
	size := func(n int64) string { return units.HumanSizeWithPrecision(float64(n), 3) }
	for _, rule := range network.Rules {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", rule.Host, rule.Decision, size(rule.Sent), size(rule.Received), rule.Origin)
	}
	return table.Flush()
}

// writeDecision prints a line for a decision. What the host is called was chosen
// by the agent.
func writeDecision(out io.Writer, format string, decision egress.Decision) error {
	if format == formatter.JSONFormatKey {
		return json.NewEncoder(out).Encode(decision)
	}
	target := egress.Printable(decision.Host)
	if decision.Port != 0 {
		target += fmt.Sprintf(":%d", decision.Port)
	}
	when := strings.Repeat("-", len(time.DateTime)) // not every program tells it
	if !decision.Time.IsZero() {
		when = decision.Time.Local().Format(time.DateTime)
	}
	_, err := fmt.Fprintf(out, "%s  %-7s  %s  %s (%s)\n", when, decision.Decision, target, decision.Why, decision.Via)
	return err
}
