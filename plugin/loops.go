package plugin

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/docker/cli/cli"
	"github.com/docker/cli/cli/command/formatter"
	"github.com/spf13/cobra"

	"github.com/docker-ralph/docker-ralph/lifecycle/manage"
)

// listLoops lists the loops that have logs.
func (d dispatcher) listLoops(cmd *cobra.Command, opts manage.ListOptions, show showOptions) error {
	if show.watch || opts.Size {
		return errors.New("--loops does not work with --watch and --size")
	}
	if err := writeLoops(io.Discard, show.format, nil); err != nil {
		return err
	}
	h, err := d.host(cmd, cmd.Name())
	if err != nil {
		return err
	}
	list, err := manage.Loops(cmd.Context(), h, opts.All)
	if err != nil {
		return err
	}
	if !opts.Names {
		return writeLoops(d.cli.Out(), show.format, list)
	}
	for _, l := range list {
		if _, err := fmt.Fprintln(d.cli.Out(), l.ID); err != nil {
			return err
		}
	}
	return nil
}

const loopTable = "table {{.ID}}\t{{.Branch}}\t{{.Agent}}\t{{.Started}}\t{{.Status}}\t{{.Runs}}\t{{.Done}}\t{{.Time}}\t{{.Cost}}"

func writeLoops(out io.Writer, format string, list []manage.LoopRecord) error {
	names := headings{
		"ID": "LOOP ID", "Command": "COMMAND", "Repo": "REPO", "Branch": "BRANCH", "Agent": "AGENT", "Worktree": "WORKTREE",
		"Started": "STARTED", "Status": formatter.StatusHeader, "ExitCode": "EXIT CODE",
	}
	return listing[manage.LoopRecord]{format, loopTable, spentHeadings(names), newLoopRow}.write(out, list)
}

// loopRow is a loop for a template.
type loopRow struct {
	noHeader
	spentRow
	ID, Command, Repo, Branch, Agent, Worktree, Started, Status, ExitCode string
}

func newLoopRow(l manage.LoopRecord) formatter.SubContext {
	status := "running or killed"
	if l.Ended != nil {
		status = cmp.Or(strings.ReplaceAll(l.Stop, "_", " "), "ended")
	}
	return &loopRow{
		spentRow: newSpentRow(l.Spent), ID: l.ID, Command: l.Command, Repo: l.Repo, Branch: l.Branch, Agent: l.Agent, Worktree: l.Worktree,
		Started: l.Started.Local().Format(time.DateTime), Status: status, ExitCode: count(l.ExitCode, ""),
	}
}

// spentRow is what runs have used, for a template.
type spentRow struct{ Runs, Done, Commits, Time, Tokens, Cost string }

func spentHeadings(h headings) headings {
	for name, heading := range map[string]string{"Runs": "RUNS", "Done": "DONE", "Commits": "COMMITS", "Time": "TIME", "Tokens": "TOKENS", "Cost": "COST"} {
		h[name] = heading
	}
	return h
}

func newSpentRow(s manage.Spent) spentRow {
	return spentRow{
		Runs: strconv.Itoa(s.Runs), Done: strconv.Itoa(s.Done), Commits: strconv.Itoa(s.Commits),
		Time: durationOf(s.Seconds).Round(time.Second).String(), Tokens: amount(s.Tokens),
		Cost: spentText(s),
	}
}

// spentText is a cost: "~" marks an estimate, "+" runs without a cost.
func spentText(s manage.Spent) string {
	switch {
	case s.Runs > 0 && s.Unknown == s.Runs:
		return "unknown"
	case s.Estimated && s.Unknown > 0:
		return fmt.Sprintf("~$%.2f+", s.CostUSD)
	case s.Estimated:
		return fmt.Sprintf("~$%.2f", s.CostUSD)
	case s.Unknown > 0:
		return fmt.Sprintf("$%.2f+", s.CostUSD)
	}
	return fmt.Sprintf("$%.2f", s.CostUSD)
}

func newCostCommand(d dispatcher) *cobra.Command {
	var all bool
	var format string
	cmd := &cobra.Command{
		Use:   "cost [OPTIONS]",
		Short: "Show the costs of loops by day and branch",
		Long: `Add up what the loops of this repository have cost, by day, repository and branch,
from their logs: those of the last 50 loops of each branch are kept. "~" marks
estimates, and "+" sums that lack runs whose cost is unknown.`,
		Args:              cli.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := writeCosts(io.Discard, format, nil); err != nil {
				return err
			}
			h, err := d.host(cmd, cmd.Name())
			if err != nil {
				return err
			}
			loops, err := manage.Loops(cmd.Context(), h, all)
			if err != nil {
				return err
			}
			return writeCosts(d.cli.Out(), format, manage.Costs(loops, time.Local))
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&all, "all", "a", false, "Include all repositories")
	addTemplateFormat(cmd, &format)
	return cmd
}

const costTable = "table {{.Day}}\t{{.Repo}}\t{{.Branch}}\t{{.Runs}}\t{{.Done}}\t{{.Time}}\t{{.Tokens}}\t{{.Cost}}"

// writeCosts writes a table with a total, JSON or a template.
func writeCosts(out io.Writer, format string, list []manage.CostRecord) error {
	if format == formatter.TableFormatKey && len(list) > 1 {
		list = append(list, manage.CostRecord{Day: "total", Spent: manage.TotalCost(list)})
	}
	names := headings{"Day": "DAY", "Repo": "REPO", "Branch": "BRANCH"}
	return listing[manage.CostRecord]{format, costTable, spentHeadings(names), newCostRow}.write(out, list)
}

// costRow is the cost of a branch on a day, for a template.
type costRow struct {
	noHeader
	spentRow
	Day, Repo, Branch string
}

func newCostRow(c manage.CostRecord) formatter.SubContext {
	return &costRow{spentRow: newSpentRow(c.Spent), Day: c.Day, Repo: c.Repo, Branch: c.Branch}
}

// completeLoops offers the loops of this repository.
func (d dispatcher) completeLoops(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	h, err := d.host(cmd, cmd.Name())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	h.Stderr = io.Discard
	loops, _ := manage.Loops(cmd.Context(), h, false) // a shell that completes has no use for an error
	var offered []string
	for _, l := range loops {
		offered = append(offered, cobra.CompletionWithDesc(l.ID, plainText(l.Branch)))
	}
	return offered, cobra.ShellCompDirectiveNoFileComp
}
