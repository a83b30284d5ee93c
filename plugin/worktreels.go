package plugin

import (
	"fmt"
	"io"
	"strconv"

	"github.com/docker/cli/cli"
	"github.com/docker/cli/cli/command/formatter"
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
	addTemplateFormat(cmd, &format)
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
	// Without "Current": the table puts no mark behind a heading.
	names := headings{
		"Name": "NAME", "Path": "PATH", "Branch": "BRANCH", "Sandbox": "SANDBOX", "State": "STATE", "Against": "AGAINST",
		"Ahead": "AHEAD", "Behind": "BEHIND", "Changes": "CHANGES",
	}
	return listing[manage.WorktreeStatus]{format, worktreeTable, names, newWorktreeRow}.write(out, list)
}

// worktreeRow is a worktree for a template.
type worktreeRow struct {
	noHeader
	Name, Path, Branch, Sandbox, State string

	Against       string // what Ahead and Behind compare the branch with
	Ahead, Behind string
	Changes       string // number of uncommitted files
	Main, Current bool
}

func newWorktreeRow(s manage.WorktreeStatus) formatter.SubContext {
	return &worktreeRow{
		Name: s.Name, Path: s.Path, Branch: s.Branch, Sandbox: s.Sandbox, State: s.State, Against: s.Against,
		Ahead: count(s.Ahead, ""), Behind: count(s.Behind, ""), Changes: count(s.Changes, "gone"), Main: s.Main, Current: s.Current,
	}
}

// count formats a number, or none for nil.
func count(n *int, none string) string {
	if n == nil {
		return none
	}
	return strconv.Itoa(*n)
}
