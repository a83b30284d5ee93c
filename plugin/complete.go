package plugin

import (
	"github.com/spf13/cobra"
)

// completeForwarded offers the first word after a forwarded command, and the
// flags of the loops. What follows is ralph's.
func completeForwarded(name string) cobra.CompletionFunc {
	words := map[string][]string{
		"plan":  {"--max-iterations", "--model", "--danger", "--help"},
		"build": {"--max-iterations", "--model", "--danger", "--help"},
		"task": {
			"plan-sync", "plan-status", "peek", "claim", "renew", "done", "fail", "list", "show", "create", "update",
			"delete", "deps", "block", "unblock", "agent", "--help",
		},
		runCommand:   {"--model", "--prompt", "--danger", "--help"},
		shellCommand: {"--", "--help"},
	}[name]
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if name == "task" && len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}
