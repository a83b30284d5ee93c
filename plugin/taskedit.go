package plugin

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/manage"
	"github.com/docker-ralph/docker-ralph/lifecycle/run"
)

// editWord is a task command that runs on the host, where the editor is.
const editWord = "edit"

const editUsage = `Usage:  docker ralph task edit TASK

Edit a task in $VISUAL or $EDITOR. A task that was changed meanwhile is not
overwritten.
`

// editTask carries out "docker ralph task edit".
func (d dispatcher) editTask(cmd *cobra.Command, args []string) error {
	if len(args) == 1 && (args[0] == "-h" || args[0] == "--help") {
		_, err := fmt.Fprint(d.cli.Out(), editUsage)
		return err
	}
	if len(args) != 1 {
		return fmt.Errorf("'docker ralph task edit' requires 1 argument\n\n%s", editUsage)
	}
	worktree, err := d.options.worktree.wanted()
	if err != nil {
		return err
	}
	h, err := d.host(cmd, host.TaskCommand)
	if err != nil {
		return err
	}
	code, err := manage.EditTask(cmd.Context(), h, run.Options{Overrides: d.options.overrides(), Worktree: worktree}, args[0])
	return ended(code, err)
}
