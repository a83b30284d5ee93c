// Package plugin is the command tree of "docker ralph". A command parses its
// flags into an options struct and calls one function of another package.
package plugin

import (
	_ "embed"
	"errors"

	"github.com/docker/cli/cli-plugins/plugin"
	"github.com/docker/cli/cli/command"
	"github.com/spf13/cobra"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/config/runflags"
	"github.com/docker-ralph/docker-ralph/plugin/metadata"
	"github.com/docker-ralph/docker-ralph/projectimage"
)

//go:embed root_long.txt
var rootLong string

// NewRootCommand returns "docker ralph". The first interrupt cancels its context; version
// is that of this program.
func NewRootCommand(dockerCLI command.Cli, interrupts *Interrupts, version string) *cobra.Command {
	opts := &options{}
	cmd := &cobra.Command{
		Use:              "ralph [OPTIONS] COMMAND",
		Short:            metadata.Short,
		Long:             rootLong,
		Args:             opts.knownCommand,
		SilenceUsage:     true,
		SilenceErrors:    true,
		TraverseChildren: true,
		// Cobra runs only the nearest of these.
		PersistentPreRunE: func(cmd *cobra.Command, args []string) error {
			cmd.SetContext(interrupts.Context())
			if err := errors.Join(opts.checkValues(cmd), opts.worktree.elsewhere(cmd), opts.checkDryRun(cmd)); err != nil {
				return err
			}
			return plugin.PersistentPreRunE(cmd, args)
		},
		RunE: needsCommand(dockerCLI),
	}
	opts.addFlags(cmd.Flags())
	_ = cmd.RegisterFlagCompletionFunc("agent", completeWords(projectimage.Agents()...))
	_ = cmd.RegisterFlagCompletionFunc("driver", completeDrivers)
	_ = cmd.RegisterFlagCompletionFunc("workspace", completeWords(config.WorkspaceAuto, config.WorkspaceClone, config.WorkspaceLive))
	_ = cmd.RegisterFlagCompletionFunc("progress", completeWords(modeNames()...))
	_ = cmd.RegisterFlagCompletionFunc("worktree", completeWorktrees)
	_ = cmd.RegisterFlagCompletionFunc("branch-name", completeBranches)
	d := dispatcher{cli: dockerCLI, interrupts: interrupts, options: opts, version: version}
	cmd.AddCommand(
		newForwardedCommand(d, runflags.Plan),
		newForwardedCommand(d, runflags.Build),
		newTaskCommand(d),
		newQuestionsCommand(d),
		newAnswerCommand(d),
		newStatusCommand(d),
		newListCommand(d),
		newTopCommand(d),
		hiddenAs(newListCommand(d), "list-containers"),
		newStopCommand(d),
		newRepairCommand(d),
		newCleanCommand(d),
		hiddenAs(newCleanCommand(d), "reset"),
		newLogsCommand(d),
		newEventsCommand(d),
		newCostCommand(d),
		newServeCommand(d),
		newReportCommand(d),
		newAttachCommand(d),
		newDiffCommand(d),
		newApplyCommand(d),
		newUndoCommand(d),
		newPullRequestCommand(d),
		newForwardedCommand(d, runflags.Run),
		newForwardedCommand(d, runflags.Shell),
		newTrustCommand(d),
		newConfigCommand(d),
		newSelfTestCommand(d),
		newImageCommand(d),
		newNetworkCommand(d),
		newSystemCommand(d),
		newWorktreeCommand(d),
		hiddenAs(newWorktreeListCommand(d), "list-worktrees"),
		hiddenAs(newWorktreeRemoveCommand(d), "remove-worktree"),
		newVersionCommand(dockerCLI, version),
		newHelpCommand(dockerCLI),
		newNotifyCommand(version),
	)
	for _, sub := range cmd.Commands() {
		opts.worktree.addName(sub)
	}
	groupOptions(cmd)
	cmd.SetFlagErrorFunc(opts.flagError)
	return cmd
}

// completeWords completes a flag that has a few values.
func completeWords(words ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
}
