package plugin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/docker/cli/cli"
	"github.com/docker/cli/cli/command/formatter"
	"github.com/docker/go-units"
	"github.com/spf13/cobra"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/lifecycle/network"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
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
			if err := writeNetwork(io.Discard, format, network.List{}); err != nil {
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
			return writeNetwork(d.cli.Out(), format, network)
		},
	}
	addTemplateFormat(cmd, &format)
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
			if err := decisionListing(format).check(); format != "" && err != nil {
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
	addTextFormat(cmd, &format)
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

// networkRule is a rule with the policy that it is of.
type networkRule struct {
	network.Rule
	policy egress.Mode
}

func writeNetwork(out io.Writer, format string, list network.List) error {
	if format == formatter.JSONFormatKey {
		return writeJSON(out, list)
	}
	if format == formatter.TableFormatKey {
		if _, err := fmt.Fprintf(out, "Policy: %s\n\n", list.Policy); err != nil {
			return err
		}
	}
	rules := make([]networkRule, 0, len(list.Rules))
	for _, rule := range list.Rules {
		rules = append(rules, networkRule{rule, list.Policy})
	}
	names := headings{"Host": "HOST", "Decision": "DECISION", "Sent": "SENT", "Received": "RECEIVED", "Origin": "ORIGIN", "Policy": "POLICY"}
	const table = "table {{.Host}}\t{{.Decision}}\t{{.Sent}}\t{{.Received}}\t{{.Origin}}"
	return listing[networkRule]{format, table, names, newRuleRow}.write(out, rules)
}

// ruleRow is a rule for a template.
type ruleRow struct {
	noHeader
	Host, Decision, Sent, Received, Origin, Policy string
}

func newRuleRow(r networkRule) formatter.SubContext {
	size := func(n int64) string { return units.HumanSizeWithPrecision(float64(n), 3) }
	return &ruleRow{Host: r.Host, Decision: r.Decision, Sent: size(r.Sent), Received: size(r.Received), Origin: r.Origin, Policy: string(r.policy)}
}

// writeDecision prints a line for a decision. What the host is called was chosen
// by the agent.
func writeDecision(out io.Writer, format string, decision egress.Decision) error {
	if format == formatter.JSONFormatKey {
		return json.NewEncoder(out).Encode(decision)
	}
	if format != "" {
		return decisionListing(format).writeEach(out, decision)
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

func decisionListing(format string) listing[egress.Decision] {
	return listing[egress.Decision]{format: format, row: newDecisionRow}
}

// decisionRow is a decision for a template.
type decisionRow struct {
	noHeader
	Time, Via, Decision, Host, Port, Why, Hint string
}

func newDecisionRow(d egress.Decision) formatter.SubContext {
	r := &decisionRow{Via: d.Via, Decision: d.Decision, Host: egress.Printable(d.Host), Why: termsafe.Line(d.Why), Hint: egress.Printable(d.Hint)}
	if !d.Time.IsZero() {
		r.Time = d.Time.Format(time.RFC3339)
	}
	if d.Port != 0 {
		r.Port = strconv.Itoa(int(d.Port))
	}
	return r
}
