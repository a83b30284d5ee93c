// Package plugin is the command tree of "docker ralph". A command parses its
// flags into an options struct and calls one function of another package.
package plugin

import (
	_ "embed"
	"fmt"

	"github.com/docker/cli/cli-plugins/plugin"
	"github.com/docker/cli/cli/command"
	"github.com/spf13/cobra"

	"github.com/docker-ralph/docker-ralph/plugin/metadata"
)

//go:embed root_long.txt
var rootLong string

// NewRootCommand makes "docker ralph". Its context ends with the first of the
// interrupts; version is this program's.
func NewRootCommand(dockerCLI command.Cli, interrupts *Interrupts, version string) *cobra.Command {
	opts := &options{}
	cmd := &cobra.Command{
		Use:              "ralph [OPTIONS] COMMAND",
		Short:            metadata.Short,
		Long:             rootLong,
		Args:             opts.noArgs,
		SilenceUsage:     true,
		SilenceErrors:    true,
		TraverseChildren: true,
		// The one place: cobra runs only the nearest of these.
		PersistentPreRunE: func(cmd *cobra.Command, args []string) error {
			cmd.SetContext(interrupts.Context())
			if err := opts.worktree.elsewhere(cmd); err != nil {
				return err
			}
			return plugin.PersistentPreRunE(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			cmd.SetOut(dockerCLI.Err())
			if err := cmd.Help(); err != nil {
				return err
			}
			return fmt.Errorf("%s needs a command", cmd.CommandPath())
		},
	}
	opts.addFlags(cmd.Flags())
	_ = cmd.RegisterFlagCompletionFunc("agent", completeAgents)
	_ = cmd.RegisterFlagCompletionFunc("driver", completeDrivers)
	_ = cmd.RegisterFlagCompletionFunc("progress", completeProgress)
	_ = cmd.RegisterFlagCompletionFunc("worktree", completeWorktrees)
	_ = cmd.RegisterFlagCompletionFunc("branch-name", completeBranches)
	d := dispatcher{cli: dockerCLI, interrupts: interrupts, options: opts, version: version}
	cmd.AddCommand(
		newForwardedCommand(d, "plan", "Create tasks from the specs"),
		newForwardedCommand(d, "build", "Work through the backlog, one fresh agent per task"),
		newForwardedCommand(d, "task", "Manage the backlog"),
		newListCommand(d),
		hiddenAs(newListCommand(d), "list-containers"),
		newStopCommand(d),
		newRepairCommand(d),
		newCleanCommand(d),
		hiddenAs(newCleanCommand(d), "reset"),
		newLogsCommand(d),
		newAttachCommand(d),
		newForwardedCommand(d, runCommand, "Start the agent's interface, or ask it a question"),
		newForwardedCommand(d, shellCommand, "Open a shell in the sandbox"),
		newTrustCommand(d),
		newSelfTestCommand(d),
		newImageCommand(d),
		newNetworkCommand(d),
		newWorktreeCommand(d),
		newVersionCommand(dockerCLI, version),
		newKeepCommand(dockerCLI),
	)
	cmd.AddCommand(newWorktreeAliases(d)...)
	return cmd
}
