package plugin

import (
	"fmt"
	"strings"
	"time"

	"github.com/docker/cli/cli"
	"github.com/docker/cli/cli/command/formatter/tabwriter"
	"github.com/docker/go-units"
	"github.com/spf13/cobra"

	"github.com/docker-ralph/docker-ralph/lifecycle/backlogs"
	"github.com/docker-ralph/docker-ralph/lifecycle/run"
)

// restoreWord is a task command that runs on the host, where the copies are.
const restoreWord = "restore"

// restoreUsage is the help of "docker ralph task restore".
const restoreUsage = `Usage:  docker ralph task restore [--list] [COPY]

Restore the backlog from a copy on this host, the newest one by default. Copies
are taken before and after each loop; the last five are kept.

Options:
      --list   List the copies
`

// restoreTasks carries out "docker ralph task restore".
func (d dispatcher) restoreTasks(cmd *cobra.Command, args []string) error {
	list, name := false, ""
	for _, arg := range args {
		switch {
		case arg == "-h" || arg == "--help":
			_, err := fmt.Fprint(d.cli.Out(), restoreUsage)
			return err
		case arg == "--list":
			list = true
		case strings.HasPrefix(arg, "-"):
			return fmt.Errorf("unknown flag: %s", arg)
		case name != "":
			return fmt.Errorf("unexpected argument: %s", arg)
		default:
			name = arg
		}
	}
	worktree, err := d.options.worktree.wanted()
	if err != nil {
		return err
	}
	h, err := d.host(cmd, "task")
	if err != nil {
		return err
	}
	if list {
		backlog, _, err := backlogs.Find(cmd.Context(), h, worktree)
		if err != nil {
			return err
		}
		copies, err := backlog.Copies()
		if err != nil {
			return err
		}
		return d.printCopies(copies)
	}
	code, err := run.RestoreBacklog(cmd.Context(), h, run.Options{
		Overrides: d.options.overrides(), Worktree: worktree,
	}, name)
	if err == nil && code != 0 {
		return cli.StatusError{StatusCode: code}
	}
	return err
}

func (d dispatcher) printCopies(copies []backlogs.Copy) error {
	w := tabwriter.NewWriter(d.cli.Out(), 0, 0, 3, ' ', 0)
	_, _ = fmt.Fprintln(w, "COPY\tTAKEN\tOPEN\tACTIVE\tDONE\tDELETED")
	for _, c := range copies {
		_, _ = fmt.Fprintf(w, "%s\t%s ago\t%d\t%d\t%d\t%d\n", c.Name, units.HumanDuration(time.Since(c.Taken)),
			c.Counts["open"], c.Counts["active"], c.Counts["done"], c.Counts["deleted"])
	}
	return w.Flush()
}
