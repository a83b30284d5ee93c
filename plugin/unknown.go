package plugin

import (
	"fmt"
	"slices"
	"strings"

	"github.com/docker/cli/cli"
	"github.com/docker/cli/cli/command"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/docker-ralph/docker-ralph/hint"
)

// needsCommand prints the help of a command that has subcommands only.
func needsCommand(dockerCLI command.Cli) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		cmd.SetOut(dockerCLI.Err())
		if err := cmd.Help(); err != nil {
			return err
		}
		return fmt.Errorf("%s needs a command", cmd.CommandPath())
	}
}

// knownCommand refuses unknown subcommands and suggests the one for it in another tool, or the
// nearest one.
func knownCommand(cmd *cobra.Command, args []string) error {
	err := cli.NoArgs(cmd, args)
	if err == nil {
		return nil
	}
	if other := suggested(cmd, args[0]); other != nil {
		return hint.Wrap(err, "did you mean %q?", other.CommandPath())
	}
	if near := hint.Nearest(args[0], commandNames(cmd)); near != "" {
		err = hint.Wrap(err, "did you mean %q?", cmd.CommandPath()+" "+near)
	}
	return err
}

// suggested returns the command below cmd that is suggested for a name, or nil.
func suggested(cmd *cobra.Command, name string) *cobra.Command {
	for _, sub := range cmd.Commands() {
		if slices.Contains(sub.SuggestFor, name) {
			return sub
		}
		if other := suggested(sub, name); other != nil {
			return other
		}
	}
	return nil
}

func commandNames(cmd *cobra.Command) []string {
	var names []string
	for _, sub := range cmd.Commands() {
		if !sub.Hidden {
			names = append(append(names, sub.Name()), sub.Aliases...)
		}
	}
	return names
}

// checkValues refuses values that begin with a dash, which no option has. Cobra takes such a value
// for an option, and the word after it for no command.
func (o *options) checkValues(cmd *cobra.Command) (err error) {
	o.flags.VisitAll(func(f *pflag.Flag) {
		if value := f.Value.String(); f.Changed && strings.HasPrefix(value, "-") {
			err = cmd.FlagErrorFunc()(cmd, fmt.Errorf("invalid argument %q for \"--%s\" flag", value, f.Name))
		}
	})
	return err
}

// knownCommand refuses unknown commands. An unknown one may be the name for --worktree.
func (o *options) knownCommand(cmd *cobra.Command, args []string) error {
	if err := cobra.NoArgs(cmd, args); err == nil {
		return nil
	}
	if err := o.checkValues(cmd); err != nil {
		return err
	}
	err := knownCommand(cmd, args)
	if o.worktree.name == randomName {
		err = hint.Wrap(err, "if %q is the name of a worktree, pass --worktree=%s", args[0], args[0])
	}
	return err
}

func newHelpCommand(dockerCLI command.Cli) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Print help for a command",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			about, _, err := cmd.Parent().Find(args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return commandNames(about), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Parent().Find(args)
			if err != nil {
				return err
			}
			if len(rest) > 0 && about.HasSubCommands() {
				return knownCommand(about, rest)
			}
			about.SetOut(dockerCLI.Out())
			about.HelpFunc()(about, rest)
			return nil
		},
	}
}
