package plugin

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/docker/cli/cli"
	"github.com/spf13/cobra"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/manage"
	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/wire/help"
)

// newTaskCommand returns "docker ralph task", whose arguments package task parses.
func newTaskCommand(d dispatcher) *cobra.Command {
	const name = host.TaskCommand
	cmd := &cobra.Command{
		Use:                name + " [ARG...]",
		Short:              "Manage the backlog",
		Long:               help.OnHost(help.Text(name)),
		DisableFlagParsing: true,
		ValidArgsFunction:  d.completeTask,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case wantsTaskHelp(args):
				cmd.HelpFunc()(cmd, args)
				return nil
			case d.options.detach:
				return d.detach(cmd.Context(), name)
			case len(args) > 0 && args[0] == editWord:
				return d.editTask(cmd, args[1:])
			}
			return d.withBacklog(cmd, func(_ host.Host, b *manage.Backlog) error { return runTask(cmd, b, args) })
		},
	}
	cmd.SetHelpFunc(func(_ *cobra.Command, args []string) {
		text := ""
		if len(args) > 0 {
			text = help.TaskCommand(args[0])
		}
		_, _ = fmt.Fprint(d.cli.Out(), cmp.Or(text, help.Task()))
	})
	return cmd
}

// wantsTaskHelp reports whether a help flag is among the arguments, and not the value of a flag.
func wantsTaskHelp(args []string) bool {
	for i, arg := range args {
		isHelp := arg == "-h" || arg == "--help"
		if i == 0 && isHelp {
			return true
		}
		before := ""
		if i > 1 {
			before = cmp.Or(longTaskFlags()[args[i-1]], args[i-1])
		}
		if isHelp && !slices.Contains(taskUsageOf(args[0]).flags, before) {
			return help.TaskCommand(args[0]) != ""
		}
	}
	return false
}

// withBacklog calls do with the backlog of the worktree of a command.
func (d dispatcher) withBacklog(cmd *cobra.Command, do func(host.Host, *manage.Backlog) error) error {
	worktree, err := d.options.worktree.wanted()
	if err != nil {
		return err
	}
	h, err := d.host(cmd, host.TaskCommand)
	if err != nil {
		return err
	}
	b, err := manage.OpenBacklog(cmd.Context(), h, worktree)
	if err != nil {
		return err
	}
	err = do(h, b)
	if closed := b.Close(); err == nil {
		err = closed
	}
	return err
}

// runTask runs a task command, which prints its errors.
func runTask(cmd *cobra.Command, b *manage.Backlog, args []string) error {
	code, err := b.Run(cmd.Context(), args)
	return ended(code, err)
}

// editWord is a task command for the user only.
const editWord = "edit"

// editTask carries out "docker ralph task edit".
func (d dispatcher) editTask(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return errors.New("'docker ralph task edit' requires 1 argument\n\nUsage:  docker ralph task edit TASK")
	}
	return d.withBacklog(cmd, func(_ host.Host, b *manage.Backlog) error {
		err := b.EditTask(cmd.Context(), args[0])
		if errors.Is(err, backlog.ErrNotFound) {
			const exitNothing = 2 // as of the other task commands
			return cli.StatusError{Cause: err, StatusCode: exitNothing}
		}
		return err
	})
}
