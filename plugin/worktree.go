package plugin

import (
	"errors"
	"fmt"
	"slices"

	"github.com/docker/cli/cli"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/manage"
)

// randomName is the value of --worktree without a name. It is no valid name.
const randomName = "(random)"

// worktreeOptions are the flags for the worktree of a command.
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
		return errors.New("empty worktree name")
	}
	*n = worktreeName(value)
	return nil
}

func (o *worktreeOptions) addFlags(flags *pflag.FlagSet) {
	o.flags = flags
	flags.Var(&o.name, "worktree", "Run in the worktree .worktrees/NAME, and create it if needed")
	flags.Lookup("worktree").NoOptDefVal = randomName
	flags.StringVar(&o.branch, "branch-name", "", "Branch of the worktree, existing or new")
}

// wanted returns the worktree for a command; nil for the current one.
func (o *worktreeOptions) wanted() (*host.Worktree, error) {
	branch := o.flags.Changed("branch-name")
	switch {
	case branch && o.branch == "":
		return nil, errors.New("--branch-name is empty")
	case o.name == "" && branch:
		return nil, errors.New("--branch-name requires --worktree")
	case o.name == "":
		return nil, nil
	}
	w := &host.Worktree{Name: string(o.name), Branch: o.branch}
	if w.Name == randomName {
		w.Name = ""
	}
	return w, nil
}

// ofWorktree are the commands about an existing worktree.
func ofWorktree() []string {
	return []string{"questions", "answer", "status", "logs", "events", "attach", "undo", "pr"}
}

// addName adds --worktree after these commands, where it has to have a name.
func (o *worktreeOptions) addName(cmd *cobra.Command) {
	if !slices.Contains(ofWorktree(), cmd.Name()) {
		return
	}
	flag := *o.flags.Lookup("worktree")
	flag.Usage, flag.NoOptDefVal, flag.Annotations = "Use the worktree .worktrees/NAME", "", nil
	cmd.Flags().AddFlag(&flag)
	_ = cmd.RegisterFlagCompletionFunc(flag.Name, completeWorktrees)
}

// elsewhere refuses the flags before a command that does not run in a worktree.
func (o *worktreeOptions) elsewhere(cmd *cobra.Command) error {
	if o.name == "" && !o.flags.Changed("branch-name") {
		return nil
	}
	if top := topCommand(cmd); worksElsewhere(top) || !top.HasParent() {
		return nil
	}
	return hint.Wrap(fmt.Errorf("--worktree and --branch-name do not work with %q", cmd.CommandPath()), inWorktree)
}

// inWorktree is the hint for a command that does not work elsewhere.
const inWorktree = "run it in the worktree"

// worksElsewhere reports whether a command takes --worktree, before it or after it.
func worksElsewhere(top *cobra.Command) bool {
	return slices.Contains(append(ofWorktree(), "plan", "build", "run", "shell", "task"), top.Name())
}

// topCommand returns the command directly below "docker ralph" that a command belongs to; one
// without a parent for "docker ralph" itself.
func topCommand(cmd *cobra.Command) *cobra.Command {
	for cmd.HasParent() && cmd.Parent().Name() != "ralph" {
		cmd = cmd.Parent()
	}
	return cmd
}

// newWorktreeCommand returns the commands for worktrees and their sandboxes.
func newWorktreeCommand(d dispatcher) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "worktree COMMAND",
		Short: "Manage worktrees and their sandboxes",
		Long: `Manage worktrees of this repository. Each has its own branch and sandbox, so that
several agents can work in parallel. Worktrees are in .worktrees, which git ignores.`,
		Args: knownCommand,
		RunE: needsCommand(d.cli),
	}
	cmd.AddCommand(newWorktreeAddCommand(d), newWorktreeListCommand(d), newWorktreeRemoveCommand(d))
	return cmd
}

func newWorktreeAddCommand(d dispatcher) *cobra.Command {
	var branch string
	cmd := &cobra.Command{
		Use:   "add [OPTIONS] [NAME]",
		Short: "Create a worktree",
		Long: `Create the worktree .worktrees/NAME, unless it exists, and print its path. The default
name is random. Its sandbox is created by the first command that runs in it.

An existing branch is checked out; a new one starts at the current commit. Without
--branch-name, you are asked at a terminal. In a script, the branch has the name of
the worktree.`,
		Args:              cli.RequiresMaxArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("branch-name") && branch == "" {
				return errors.New("--branch-name is empty")
			}
			if len(args) == 1 && args[0] == "" {
				return errors.New("empty worktree name")
			}
			h, err := d.host(cmd, cmd.Name())
			if err != nil {
				return err
			}
			path, err := host.AddWorktree(cmd.Context(), h, host.Worktree{Name: append(args, "")[0], Branch: branch})
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(d.cli.Out(), path)
			return err
		},
	}
	cmd.Flags().StringVar(&branch, "branch-name", "", "Branch to check out, existing or new")
	_ = cmd.RegisterFlagCompletionFunc("branch-name", completeBranches)
	return cmd
}

func newWorktreeRemoveCommand(d dispatcher) *cobra.Command {
	var opts manage.WorktreeRemoval
	cmd := &cobra.Command{
		Use:     "rm [OPTIONS] NAME [NAME...]",
		Aliases: []string{"remove"},
		Short:   "Remove worktrees and their sandboxes",
		Long: `Remove worktrees in .worktrees and their sandboxes. Commits that only a sandbox has
are fetched first. A worktree with uncommitted changes or unmerged commits, or whose
sandbox is in use, is kept unless --force is set. The backlog and the logs stay until
"docker ralph system prune". The branch is kept unless --delete-branch is set.`,
		Args:              cli.RequiresMinArgs(1),
		ValidArgsFunction: completeWorktrees,
		RunE: func(cmd *cobra.Command, names []string) error {
			h, err := d.host(cmd, cmd.Name())
			if err != nil {
				return err
			}
			opts.CredScan = d.options.credScan.value
			var errs []error
			for _, name := range names {
				opts.Name = name
				if err := manage.RemoveWorktree(cmd.Context(), h, opts); err != nil {
					errs = append(errs, err)
					continue
				}
				_, err := fmt.Fprintln(d.cli.Out(), name)
				errs = append(errs, err)
			}
			return errors.Join(errs...)
		},
	}
	cmd.Flags().BoolVarP(&opts.Force, "force", "f", false, "Remove worktrees with unsaved work or a running command")
	cmd.Flags().BoolVar(&opts.DeleteBranch, "delete-branch", false, "Also delete the branch")
	return cmd
}

// completeWorktrees offers worktrees that are not on the command line yet. It leaves
// errors to the command.
func completeWorktrees(cmd *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
	names, _ := host.WorktreeNames(cmd.Context(), ".")
	names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(given, name) })
	return names, cobra.ShellCompDirectiveNoFileComp
}

func completeBranches(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	branches, _ := host.Branches(cmd.Context(), ".")
	return plainWords(branches), cobra.ShellCompDirectiveNoFileComp
}
