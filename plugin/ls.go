package plugin

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/docker/cli/cli"
	"github.com/docker/cli/cli/command/formatter"
	"github.com/spf13/cobra"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/manage"
)

func newListCommand(d dispatcher) *cobra.Command {
	var opts manage.ListOptions
	var show showOptions
	var loops bool
	var filters []string
	cmd := &cobra.Command{
		Use:        "ls [OPTIONS]",
		Aliases:    []string{"list"},
		SuggestFor: []string{"ps"},
		Short:      "List sandboxes",
		Long: `List the sandboxes of this repository, with the loop running in each or how the
last one ended. The sandbox of this worktree and branch is marked. With --loops, list
the loops that have logs instead, for "logs --loop".

With --all, branches whose sandbox was removed are listed as long as they have tasks
or logs, but not with --quiet.`,
		Args:              cli.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if loops {
				return d.listLoops(cmd, opts, show)
			}
			matches, err := sandboxFilter(filters)
			if err != nil {
				return err
			}
			return d.listSandboxes(cmd, opts, show, matches)
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&opts.All, "all", "a", false, "Show the sandboxes of all repositories, and removed ones")
	flags.StringArrayVarP(&filters, "filter", "f", nil, `Filter sandboxes ("agent=", "branch=", "driver=", "name=", "state=")`)
	flags.BoolVarP(&opts.Names, "quiet", "q", false, "Only display names")
	flags.BoolVarP(&opts.Size, "size", "s", false, "Display total file sizes")
	flags.BoolVar(&loops, "loops", false, "List loops instead of sandboxes")
	flags.BoolVarP(&show.watch, "watch", "w", false, "Refresh the output until interrupted")
	flags.BoolVar(&show.noTrunc, "no-trunc", false, "Don't truncate output")
	addTemplateFormat(cmd, &show.format)
	_ = cmd.RegisterFlagCompletionFunc("filter", cobra.FixedCompletions([]string{"agent=", "branch=", "driver=", "name=", "state="}, cobra.ShellCompDirectiveNoSpace|cobra.ShellCompDirectiveNoFileComp))
	cmd.MarkFlagsMutuallyExclusive("loops", "filter")
	return cmd
}

// sandboxFilter returns a function that reports whether a sandbox meets the conditions: one of
// those for each key, as in the Docker CLI.
func sandboxFilter(conditions []string) (func(manage.SandboxStatus) bool, error) {
	wanted := map[string][]string{}
	for _, condition := range conditions {
		key, value, _ := strings.Cut(condition, "=")
		if value == "" || !slices.Contains([]string{"agent", "branch", "driver", "name", "state"}, key) {
			return nil, fmt.Errorf("invalid filter %q: use agent=NAME, branch=NAME, driver=NAME, name=TEXT or state=STATE", condition)
		}
		wanted[key] = append(wanted[key], value)
	}
	return func(s manage.SandboxStatus) bool {
		for key, values := range wanted {
			got := map[string]string{"agent": s.Agent, "branch": s.Branch, "driver": s.Driver, "name": s.Name, "state": s.State}[key]
			if !slices.ContainsFunc(values, func(v string) bool { return v == got || key == "name" && strings.Contains(got, v) }) {
				return false
			}
		}
		return true
	}, nil
}

// hiddenAs returns a hidden alias of a command.
func hiddenAs(cmd *cobra.Command, name string) *cobra.Command {
	_, args, _ := strings.Cut(cmd.Use, " ")
	cmd.Use, cmd.Aliases, cmd.SuggestFor, cmd.Hidden = strings.TrimSpace(name+" "+args), nil, nil, true
	return cmd
}

// showOptions are how sandboxes are shown.
type showOptions struct {
	format         string
	watch, noTrunc bool
}

func (d dispatcher) listSandboxes(cmd *cobra.Command, opts manage.ListOptions, show showOptions, matches func(manage.SandboxStatus) bool) error {
	if err := writeSandboxes(io.Discard, show.format, opts.Size, nil); err != nil {
		return err
	}
	h, err := d.host(cmd, cmd.Name())
	if err != nil {
		return err
	}
	opts.Former = opts.All
	out := d.cli.Out()
	v := view{
		collect: func(ctx context.Context, h host.Host) ([]manage.SandboxStatus, error) {
			list, err := manage.Sandboxes(ctx, h, opts)
			return slices.DeleteFunc(list, func(s manage.SandboxStatus) bool { return !matches(s) }), err
		},
		show: func(to io.Writer, list []manage.SandboxStatus) error {
			switch {
			case opts.Names:
				return writeNames(to, list)
			case show.format != formatter.TableFormatKey || !out.IsTerminal():
				return writeSandboxes(to, show.format, opts.Size, list)
			}
			width := 0
			if !show.noTrunc {
				_, columns := out.GetTtySize()
				width = int(columns)
			}
			return writeSandboxTable(to, opts.Size, list, width)
		},
	}
	if show.format == formatter.JSONFormatKey {
		v.json = func(list []manage.SandboxStatus) any { return list }
	}
	return v.run(cmd.Context(), h, out, show.watch)
}

func writeNames(out io.Writer, list []manage.SandboxStatus) error {
	for _, s := range list {
		if _, err := fmt.Fprintln(out, s.Name); err != nil {
			return err
		}
	}
	return nil
}

func writeSandboxes(out io.Writer, format string, size bool, list []manage.SandboxStatus) error {
	return sandboxListing(format, size, list).write(out, list)
}

func sandboxListing(format string, size bool, list []manage.SandboxStatus) listing[manage.SandboxStatus] {
	row := func(s manage.SandboxStatus) formatter.SubContext { return newSandboxRow(s, time.Now()) }
	return listing[manage.SandboxStatus]{format, tableFormat(sandboxColumns(size, severalEngines(list))), sandboxHeadings(), row}
}

// sandboxHeadings lacks "Current": the table puts no mark behind a heading.
func sandboxHeadings() headings {
	return headings{
		"Name": formatter.NameHeader, "Scope": "SCOPE", "Repo": "REPO", "Branch": "BRANCH", "Driver": "DRIVER", "Engine": "ENGINE", "Agent": "AGENT",
		"State": "STATE", "Loop": "LOOP", "Iteration": "ITERATION", "Task": "TASK", "Title": "TITLE", "Since": "SINCE", "ExitCode": "EXIT CODE",
		"Worktree": "WORKTREE", "Image": "IMAGE", "Size": formatter.SizeHeader, "Activity": "ACTIVITY", "TasksLeft": "TASKS LEFT", "Tokens": "TOKENS",
		"Cost": "COST", "LastOutput": "LAST OUTPUT", "Questions": "QUESTIONS", "Blocked": "BLOCKED", "Unfetched": "UNFETCHED", "OtherClient": "OTHER CLIENT",
	}
}

// coloured colours the states in a table. A colour has no width, so it can come
// only when the columns have theirs.
func coloured(table string, list []manage.SandboxStatus) string {
	lines := strings.SplitAfter(table, "\n")
	at := strings.Index(lines[0], "STATE")
	for i, s := range list {
		if i+1 >= len(lines) || at < 0 {
			break
		}
		colour := "33"
		switch lifecycle.State(s.State) {
		case lifecycle.Running:
			colour = "32"
		case lifecycle.Stopped:
			colour = "90"
		}
		row := []rune(lines[i+1])
		if end := at + len([]rune(s.State)); end <= len(row) && string(row[at:end]) == s.State {
			lines[i+1] = string(row[:at]) + "\x1b[" + colour + "m" + s.State + "\x1b[0m" + string(row[end:])
		}
	}
	return strings.Join(lines, "")
}

// completeSandboxes offers the names of sandboxes that are not given yet.
func (d dispatcher) completeSandboxes(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionLimit)
	defer cancel()
	h, err := d.host(cmd, cmd.Name())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	h.Stderr = io.Discard
	names, _ := manage.SandboxNames(ctx, h) // a shell that completes has no use for an error
	given := map[string]bool{}
	for _, arg := range args {
		given[arg] = true
	}
	var offered []string
	for _, name := range names {
		if !given[name] {
			offered = append(offered, name)
		}
	}
	return offered, cobra.ShellCompDirectiveNoFileComp
}

// completionLimit is as long as a user may wait for a completion.
const completionLimit = 2 * time.Second
