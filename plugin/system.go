package plugin

import (
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/docker/cli/cli"
	"github.com/docker/cli/cli/command/formatter"
	"github.com/docker/go-units"
	"github.com/spf13/cobra"

	"github.com/docker-ralph/docker-ralph/lifecycle/disk"
	safe "github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// newSystemCommand returns the commands for what docker ralph keeps on this machine.
func newSystemCommand(d dispatcher) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "system COMMAND",
		Short: "Manage disk space",
		Long:  `Manage the disk space that docker ralph uses.`,
		Args:  knownCommand,
		RunE:  needsCommand(d.cli),
	}
	cmd.AddCommand(newSystemDfCommand(d), newSystemPruneCommand(d))
	return cmd
}

func newSystemDfCommand(d dispatcher) *cobra.Command {
	var format string
	var verbose bool
	cmd := &cobra.Command{
		Use:   "df [OPTIONS]",
		Short: "Show disk usage",
		Long: `Show the disk usage of all repositories: sandboxes with their proxies,
networks and volumes, images, and state on the host. Reclaimable are resources of
deleted worktrees and repositories, of other versions of docker ralph, and of no
sandbox. Sizes of microVMs are unknown.`,
		Args:              cli.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := writeUsage(io.Discard, format, verbose, nil); err != nil {
				return err
			}
			h, err := d.host(cmd, cmd.Name())
			if err != nil {
				return err
			}
			items, err := disk.Usage(cmd.Context(), h)
			if err != nil {
				return err
			}
			return writeUsage(d.cli.Out(), format, verbose, items)
		},
	}
	flags := cmd.Flags()
	addTemplateFormat(cmd, &format)
	flags.BoolVarP(&verbose, "verbose", "v", false, "List each item with its repository")
	return cmd
}

func newSystemPruneCommand(d dispatcher) *cobra.Command {
	var opts disk.PruneOptions
	cmd := &cobra.Command{
		Use:        "prune [OPTIONS]",
		SuggestFor: []string{"prune"},
		Short:      "Remove unused data",
		Long: `Remove the sandboxes, volumes and state, including the backlogs, of worktrees and
repositories that no longer exist, and outdated programs and images. Print the removed
items. Commits that only a sandbox has are fetched first. A sandbox is kept if that
fails, or if it is in use.`,
		Args:              cli.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			h, err := d.host(cmd, cmd.Name())
			if err != nil {
				return err
			}
			removed, err := disk.Prune(cmd.Context(), h, opts)
			for _, what := range removed {
				_, _ = fmt.Fprintln(d.cli.Out(), what)
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&opts.All, "all", "a", false, "Also remove images that no sandbox uses")
	flags.BoolVar(&opts.DiscardCommits, "discard-commits", false, "Discard commits that cannot be fetched")
	flags.BoolVar(&opts.DryRun, "dry-run", false, "Print what would be removed")
	flags.BoolVarP(&opts.Force, "force", "f", false, "Do not prompt for confirmation")
	return cmd
}

// writeUsage prints a summary or, with verbose, each item.
func writeUsage(out io.Writer, format string, verbose bool, items []disk.Item) error {
	if verbose {
		table := "table {{.Type}}\t{{.Name}}\t{{.Kind}}\t{{.Repository}}\t{{.Path}}\t{{.Size}}\t{{.Active}}\t{{.Reclaimable}}"
		if slices.ContainsFunc(items, func(i disk.Item) bool { return i.OtherClient != "" }) {
			table += "\t{{.OtherClient}}"
		}
		columns := headings{
			"Type": "TYPE", "Name": formatter.NameHeader, "Kind": "KIND", "Repository": "REPOSITORY", "Path": "DIRECTORY",
			"Size": formatter.SizeHeader, "Active": "ACTIVE", "Reclaimable": "RECLAIMABLE", "Reason": "REASON", "OtherClient": "OTHER CLIENT",
		}
		return listing[disk.Item]{format, table, columns, newItemRow}.write(out, items)
	}
	table := "table {{.Type}}\t{{.Total}}\t{{.Active}}\t{{.Size}}\t{{.Reclaimable}}"
	columns := headings{"Type": "TYPE", "Total": "TOTAL", "Active": "ACTIVE", "Size": formatter.SizeHeader, "Reclaimable": "RECLAIMABLE"}
	return listing[disk.Summary]{format, table, columns, newSummaryRow}.write(out, disk.Summarize(items))
}

// summaryRow is a [disk.Summary] for templates.
type summaryRow struct {
	noHeader
	Type, Total, Active, Size, Reclaimable string
}

func newSummaryRow(s disk.Summary) formatter.SubContext {
	row := summaryRow{
		Type: string(s.Type), Total: strconv.Itoa(s.Total), Active: strconv.Itoa(s.Active),
		Size: units.HumanSize(float64(s.Size)), Reclaimable: units.HumanSize(float64(s.Reclaimable)),
	}
	if s.Size > 0 {
		row.Reclaimable += fmt.Sprintf(" (%d%%)", s.Reclaimable*100/s.Size)
	}
	return row
}

// itemRow is a [disk.Item] for templates.
type itemRow struct {
	noHeader
	Type, Name, Kind, Repository, Path, Size, Reason, OtherClient string
	Active, Reclaimable                                           bool
}

func newItemRow(i disk.Item) formatter.SubContext {
	row := itemRow{
		Type: string(i.Type), Name: i.Name, Kind: i.Kind, Repository: i.Repository, Path: i.Path,
		Size: "N/A", Reason: safe.Line(i.Reason), OtherClient: safe.Line(i.OtherClient), Active: i.Active, Reclaimable: i.Reclaimable,
	}
	if i.Size != nil {
		row.Size = units.HumanSize(float64(*i.Size))
	}
	return row
}
