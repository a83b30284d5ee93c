package plugin

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/docker/cli/cli"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/docker-ralph/docker-ralph/lifecycle/dispatch"
)

// randomName is what --worktree means without a name. No worktree can be called
// that.
const randomName = "(random)"

// worktreeOptions are the flags that say in which worktree a command runs.
type worktreeOptions struct {
	name   worktreeName
	branch string
	flags  *pflag.FlagSet
}

// worktreeName is the value of --worktree.
type worktreeName string

// String implements [pflag.Value].
func (n *worktreeName) String() string { return string(*n) }

// Type implements [pflag.Value].
func (n *worktreeName) Type() string { return "name" }

// Set implements [pflag.Value].
func (n *worktreeName) Set(value string) error {
	if value == "" {
		return errors.New("a name is missing after the =")
	}
	*n = worktreeName(value)
	return nil
}

func (o *worktreeOptions) addFlags(flags *pflag.FlagSet) {
	o.flags = flags
	flags.Var(&o.name, "worktree", "Run in this worktree below .worktrees, which is made if it is not there (--worktree=NAME)")
	flags.Lookup("worktree").NoOptDefVal = randomName
	flags.StringVar(&o.branch, "branch-name", "", "Branch of the worktree that --worktree makes: an existing or a new one")
}

// wanted returns the worktree that a command is to run in; nil for where it was
// given.
func (o *worktreeOptions) wanted() (*dispatch.Worktree, error) {
	branch := o.flags.Changed("branch-name")
	switch {
	case branch && o.branch == "":
		return nil, errors.New("--branch-name is empty: give a branch, or leave it out")
	case o.name == "" && branch:
		return nil, errors.New("--branch-name is the branch of a worktree: give --worktree or --worktree=NAME with it")
	case o.name == "":
		return nil, nil
	}
	w := &dispatch.Worktree{Name: string(o.name), Branch: o.branch}
	if w.Name == randomName {
		w.Name = ""
	}
	return w, nil
}

// elsewhere refuses the flags before a command of "docker ralph" that does not
// run in a worktree of its own.
func (o *worktreeOptions) elsewhere(cmd *cobra.Command) error {
	if o.name == "" && !o.flags.Changed("branch-name") {
		return nil
	}
	top := cmd
	for top.HasParent() && top.Parent().Name() != "ralph" {
		top = top.Parent()
	}
	commands := []string{"plan", "build", "task", "run", "shell"}
	if slices.Contains(commands, top.Name()) || !top.HasParent() {
		return nil
	}
	return fmt.Errorf("--worktree and --branch-name are for %s: for %q, go to the worktree", strings.Join(commands, ", "), cmd.CommandPath())
}

// noArgs refuses what is no command. It may be a name that was meant for
// --worktree.
func (o *options) noArgs(cmd *cobra.Command, args []string) error {
	err := cli.NoArgs(cmd, args)
	if err != nil && o.worktree.name == randomName {
		err = fmt.Errorf("%w\n\nIf %q is the name of a worktree, write --worktree=%s", err, args[0], args[0])
	}
	return err
}

// newWorktreeCommand makes the commands about worktrees and their sandboxes.
func newWorktreeCommand(d dispatcher) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "worktree COMMAND",
		Short: "Add, list and remove worktrees with their sandboxes",
		Long: `Add, list and remove worktrees of this repository. Each has a branch and a
sandbox of its own, so that several agents work side by side. They are in the
folder .worktrees, which git ignores.`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cmd.SetOut(d.cli.Err())
			if err := cmd.Help(); err != nil {
				return err
			}
			return fmt.Errorf("%s needs a command", cmd.CommandPath())
		},
	}
	cmd.AddCommand(newWorktreeAddCommand(d), newWorktreeListCommand(d), newWorktreeRemoveCommand(d))
	return cmd
}

// newWorktreeAliases are older names of these commands.
func newWorktreeAliases(d dispatcher) []*cobra.Command {
	list, remove := newWorktreeListCommand(d), newWorktreeRemoveCommand(d)
	list.Use, remove.Use = "list-worktrees [OPTIONS]", "remove-worktree [OPTIONS] NAME [NAME...]"
	list.Aliases, remove.Aliases = nil, nil
	list.Hidden, remove.Hidden = true, true
	return []*cobra.Command{list, remove}
}

func newWorktreeAddCommand(d dispatcher) *cobra.Command {
	var branch string
	cmd := &cobra.Command{
		Use:   "add [OPTIONS] [NAME]",
		Short: "Add a worktree",
		Long: `Make the worktree .worktrees/NAME, unless it is there already, and print its path.
Without NAME it gets eight random letters and digits. Its sandbox is made by the
first command that runs in it.

A branch that exists is checked out; another one is made, from where you are now.
Without --branch-name you are asked for it at a terminal, and in a script it is
called like the worktree.`,
		Args:              cli.RequiresMaxArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("branch-name") && branch == "" {
				return errors.New("--branch-name is empty: give a branch, or leave it out")
			}
			if len(args) == 1 && args[0] == "" {
				return errors.New("the name of the worktree is empty: give one, or leave it out")
			}
			host, err := d.host(cmd, cmd.Name())
			if err != nil {
				return err
			}
			path, err := dispatch.AddWorktree(cmd.Context(), host, dispatch.Worktree{Name: append(args, "")[0], Branch: branch})
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(d.cli.Out(), path)
			return err
		},
	}
	cmd.Flags().StringVar(&branch, "branch-name", "", "Branch to check out: an existing or a new one")
	_ = cmd.RegisterFlagCompletionFunc("branch-name", completeBranches)
	return cmd
}

func newWorktreeRemoveCommand(d dispatcher) *cobra.Command {
	var opts dispatch.WorktreeRemoval
	cmd := &cobra.Command{
		Use:     "rm [OPTIONS] NAME [NAME...]",
		Aliases: []string{"remove"},
		Short:   "Remove worktrees with their sandboxes",
		Long: `Remove worktrees below .worktrees together with their sandboxes. Commits that are
in a sandbox only are brought into the repository before. A worktree with changes
that are not committed, or with commits that are not merged, is left as it is, and
so is one whose sandbox is at work, unless --force is given. Backlog and logs go to
.ralph/removed in the main work tree; what else git ignores goes with the worktree.
The branch stays, unless --delete-branch is given.`,
		Args:              cli.RequiresMinArgs(1),
		ValidArgsFunction: completeWorktrees,
		RunE: func(cmd *cobra.Command, names []string) error {
			host, err := d.host(cmd, cmd.Name())
			if err != nil {
				return err
			}
			opts.CredScan = d.options.credScan.value
			var errs []error
			for _, name := range names {
				opts.Name = name
				if err := dispatch.RemoveWorktree(cmd.Context(), host, opts); err != nil {
					errs = append(errs, err)
					continue
				}
				_, err := fmt.Fprintln(d.cli.Out(), name)
				errs = append(errs, err)
			}
			return errors.Join(errs...)
		},
	}
	cmd.Flags().BoolVarP(&opts.Force, "force", "f", false, "Also remove what has work that is nowhere else, or is in use")
	cmd.Flags().BoolVar(&opts.DeleteBranch, "delete-branch", false, "Delete the branch too")
	return cmd
}

// completeWorktrees offers worktrees that are not on the command line yet. That
// they cannot be found out is for the command to tell.
func completeWorktrees(cmd *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
	names, _ := dispatch.WorktreeNames(cmd.Context(), ".")
	names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(given, name) })
	return names, cobra.ShellCompDirectiveNoFileComp
}

func completeBranches(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	branches, _ := dispatch.Branches(cmd.Context(), ".")
	return plainWords(branches), cobra.ShellCompDirectiveNoFileComp
}
