package plugin

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

func TestSandboxOptionsAfterACommand(t *testing.T) {
	for _, tc := range []struct{ command, args, ours, rest, unknown string }{
		{"build", "--agent shell -n 3", "--agent shell", "-n 3", ""},
		{"build", "-n 3 --memory=4g --detach --model opus", "--memory=4g --detach", "-n 3 --model opus", ""},
		{"plan", "--worktree w1", "--worktree", "w1", "w1"},
		{"run", "-p --agent --agent shell", "--agent shell", "-p --agent", ""},
		{"run", "--prompt=x --env", "--env", "--prompt x", ""},
		{"build", "--max-iterations=3 --danger=x", "", "--max-iterations 3 --danger=x", ""},
		{"build", "--nonsense -agent agent", "", "--nonsense -agent agent", "--nonsense"},
		{"build", "-n", "", "-n", ""},
		{"build", "-n 3 --help --nonsense", "", "-n 3 --help --nonsense", ""},
	} {
		o := &options{}
		o.addFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
		ours, rest, unknown := o.hoist(tc.command, strings.Fields(tc.args))
		assert.Check(t, is.Equal(strings.Join(ours, " "), tc.ours))
		assert.Check(t, is.Equal(strings.Join(rest, " "), tc.rest))
		assert.Check(t, is.Equal(unknown, tc.unknown))
	}
}
