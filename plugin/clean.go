package plugin

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/docker-ralph/docker-ralph/lifecycle/dispatch"
)

func newCleanCommand(d dispatcher) *cobra.Command {
	var opts dispatch.SandboxClean
	cmd := &cobra.Command{
		Use:   "clean [OPTIONS] [SANDBOX...]",
		Short: "Remove sandboxes",
		Long: `Remove the sandbox of this work tree and branch, or the sandboxes that are named,
with their networks and proxies. At a terminal it asks whether all sandboxes of the
repository are meant. With --all it removes those, and the volume with their caches.

No work tree, file, branch or commit of yours is removed. Commits that are in a
sandbox alone are brought into the repository first; a sandbox where that is not
possible is kept, and so is one that something runs in.`,
		ValidArgsFunction: d.completeSandboxes,
		RunE: func(cmd *cobra.Command, args []string) error {
			host, err := d.host(cmd, cmd.Name())
			if err != nil {
				return err
			}
			opts.Names = args
			removed, err := dispatch.CleanSandboxes(cmd.Context(), host, opts)
			for _, what := range removed {
				_, _ = fmt.Fprintln(d.cli.Out(), what)
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&opts.All, "all", "a", false, "Remove all sandboxes of the repository, and their caches")
	flags.BoolVar(&opts.DiscardCommits, "discard-commits", false, "Discard commits that cannot be fetched")
	flags.BoolVarP(&opts.Force, "force", "f", false, "Do not ask")
	flags.BoolVar(&opts.DryRun, "dry-run", false, "Only print what would be removed")
	return cmd
}
