package plugin

import (
	"fmt"
	"io"
	"strconv"

	"github.com/docker/cli/cli"
	"github.com/docker/cli/cli/command/formatter"
	flagsHelper "github.com/docker/cli/cli/flags"
	"github.com/spf13/cobra"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/manage"
)

func newWorktreeListCommand(d dispatcher) *cobra.Command {
	var format string
	var quiet bool
	cmd := &cobra.Command{
		Use:     "ls [OPTIONS]",
		Aliases: []string{"list"},
		Short:   "List worktrees and their sandboxes",
		Long: `List the worktrees of this repository, with their branch, sandbox, commits ahead of
and behind the upstream (or the main worktree's branch), and uncommitted files.`,
		Args:              cli.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := writeWorktrees(io.Discard, format, nil); err != nil {
				return err
			}
			h, err := d.host(cmd, cmd.Name())
			if err != nil {
				return err
			}
			if quiet {
				return d.worktreeNames(cmd, h)
			}
			list, err := manage.Worktrees(cmd.Context(), h)
			if err != nil {
				return err
			}
			return writeWorktrees(d.cli.Out(), format, list)
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&quiet, "quiet", "q", false, "Only display names")
	flags.StringVar(&format, "format", formatter.TableFormatKey, flagsHelper.FormatHelp)
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions([]string{formatter.TableFormatKey, formatter.JSONFormatKey}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (d dispatcher) worktreeNames(cmd *cobra.Command, h host.Host) error {
	names, err := host.WorktreeNames(cmd.Context(), h.Dir)
	for _, name := range names {
		_, _ = fmt.Fprintln(d.cli.Out(), name)
	}
	return err
}

const worktreeTable = "table {{.Path}}{{if .Current}} (current){{end}}\t{{.Branch}}\t{{.Sandbox}}\t{{.State}}\t{{.Ahead}}\t{{.Behind}}\t{{.Changes}}"

func writeWorktrees(out io.Writer, format string, list []manage.WorktreeStatus) error {
	heading := &worktreeContext{}
	// Without "Current": the table puts no mark behind a heading.
	heading.Header = formatter.SubHeaderContext{
		"Name": "NAME", "Path": "PATH", "Branch": "BRANCH", "Sandbox": "SANDBOX", "State": "STATE", "Against": "AGAINST",
		"Ahead": "AHEAD", "Behind": "BEHIND", "Changes": "CHANGES",
	}
	row := func(status manage.WorktreeStatus) formatter.SubContext { return &worktreeContext{status: status} }
	return listing[manage.WorktreeStatus]{format: format, table: worktreeTable, heading: heading, row: row}.write(out, list)
}

// worktreeContext is a worktree for a template: its methods are the
// placeholders.
type worktreeContext struct {
	formatter.HeaderContext
	status manage.WorktreeStatus
}

// MarshalJSON is for "{{json .}}".
func (c *worktreeContext) MarshalJSON() ([]byte, error) { return formatter.MarshalJSON(c) }

// Name returns what it is called below .worktrees.
func (c *worktreeContext) Name() string { return c.status.Name }

// Path returns where it is.
func (c *worktreeContext) Path() string { return c.status.Path }

// Branch returns the branch that is checked out.
func (c *worktreeContext) Branch() string { return c.status.Branch }

// Sandbox returns the name of its sandbox.
func (c *worktreeContext) Sandbox() string { return c.status.Sandbox }

// State returns the state of its sandbox.
func (c *worktreeContext) State() string { return c.status.State }

// Against returns what the branch is compared with.
func (c *worktreeContext) Against() string { return c.status.Against }

// Ahead returns how many commits that does not have.
func (c *worktreeContext) Ahead() string { return count(c.status.Ahead, "") }

// Behind returns how many commits the branch does not have.
func (c *worktreeContext) Behind() string { return count(c.status.Behind, "") }

// Changes returns how many files have changes that are not committed.
func (c *worktreeContext) Changes() string { return count(c.status.Changes, "gone") }

// Main reports whether it is the main one.
func (c *worktreeContext) Main() bool { return c.status.Main }

// Current reports whether it is the current worktree.
func (c *worktreeContext) Current() bool { return c.status.Current }

// count formats a number, or none for nil.
func count(n *int, none string) string {
	if n == nil {
		return none
	}
	return strconv.Itoa(*n)
}
