package plugin

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

// parseForwarded parses the arguments of a command, and returns the options for the sandbox and
// what ralph gets.
func parseForwarded(t *testing.T, name string, args ...string) (o *options, rest []string, err error) {
	t.Helper()
	before := os.Args
	t.Cleanup(func() { os.Args = before })
	os.Args = append([]string{"docker-ralph", "ralph", name}, args...)
	o = &options{}
	o.addFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
	cmd := newForwardedCommand(dispatcher{options: o}, name)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return err })
	cmd.RunE = func(*cobra.Command, []string) error { return nil }
	cmd.SetArgs(args)
	err = cmd.Execute()
	return o, forwardedArgs(cmd), err
}

// forwardedArgs returns what ralph gets from a parsed command line.
func forwardedArgs(cmd *cobra.Command) (args []string) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if v, ok := f.Value.(forwardedFlag); ok {
			args = v.to.args
		}
	})
	return args
}

func TestArgumentsOfForwardedCommands(t *testing.T) {
	for _, tc := range []struct{ command, args, rest, err string }{
		{"build", "-n 3 --model opus-4.5 --danger", "-n 3 --model opus-4.5 --danger", ""},
		{"build", "--agent shell -n 3", "-n 3", ""},
		{"build", "-n 3 --memory=4g -d --model opus", "-n 3 --model opus", ""},
		{"build", "--max-iterations=3 -dn4", "--max-iterations 3 --max-iterations 4", ""},
		{"run", "-p --agent --agent shell", "-p --agent", ""},
		{"run", "--prompt=x -e A", "--prompt x", ""},
		{"plan", "--worktree w1", "", ""},
		{"plan", "w1", "", "accepts no arguments"},
		{"build", "-n", "", "flag needs an argument: 'n' in -n"},
		{"build", "-n x", "", `invalid argument "x" for "-n, --max-iterations" flag: requires a number`},
		{"build", "--max-duration 8", "", `invalid argument "8" for "--max-duration" flag: must be 0 or a duration`},
		{"build", "--danger=x", "", "takes no value"},
		{"build", "--model= x", "", "requires an alias"},
		{"build", "--nonsense", "", "unknown flag: --nonsense"},
	} {
		t.Run(tc.command+" "+tc.args, func(t *testing.T) {
			o, rest, err := parseForwarded(t, tc.command, strings.Split(tc.args, " ")...)
			if tc.err != "" {
				assert.ErrorContains(t, err, tc.err)
				return
			}
			assert.NilError(t, err)
			assert.Check(t, is.Equal(strings.Join(rest, " "), tc.rest))
			assert.Check(t, is.Equal(o.agent, map[bool]string{true: "shell"}[strings.Contains(tc.args, "--agent shell")]))
			assert.Check(t, is.Equal(o.detach, strings.Contains(tc.args, "-d") && !strings.Contains(tc.args, "--danger")))
			assert.Check(t, is.Equal(string(o.worktree.name), map[bool]string{true: "w1"}[strings.Contains(tc.args, "w1")]))
		})
	}
}

// Before its name, --dry-run previews the sandbox of plan, and after it the plan.
func TestDryRunOfPlan(t *testing.T) {
	for _, tc := range []struct {
		command, args string
		preview       bool
		rest          string
	}{
		{"plan", "--dry-run -n 2", false, "--dry-run -n 2"},
		{"plan", "--agent shell --dry-run", false, "--dry-run"},
		{"build", "--dry-run -n 2", true, "-n 2"},
	} {
		o, rest, err := parseForwarded(t, tc.command, strings.Fields(tc.args)...)
		assert.NilError(t, err)
		assert.Check(t, is.Equal(o.dryRun, tc.preview), tc.args)
		assert.Check(t, is.Equal(strings.Join(rest, " "), tc.rest))
	}
}

func TestCommandOfAShell(t *testing.T) {
	for args, want := range map[string]string{"": "", "--memory 4g -- env -x": "-- env -x", "sh -c true": "-- sh -c true", "-- -- x": "-- -- x"} {
		f := &forwarded{}
		f.Name = "shell"
		o := &options{}
		o.addFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
		cmd := newForwardedCommand(dispatcher{options: o}, "shell")
		assert.NilError(t, cmd.ParseFlags(strings.Fields(args)))
		assert.NilError(t, f.takeArgs(cmd, o, cmd.Flags().Args()))
		assert.Check(t, is.Equal(strings.Join(f.args, " "), want))
	}
}
