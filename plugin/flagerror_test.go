package plugin

import (
	"io"
	"strings"
	"testing"

	"github.com/docker/cli/cli/command"
	"github.com/spf13/cobra"
	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/config/runflags"
	"github.com/docker-ralph/docker-ralph/hint"
)

// failing returns the error of a command line that ends before its command.
func failing(t *testing.T, args ...string) error {
	t.Helper()
	dockerCLI, err := command.NewDockerCli(command.WithCombinedStreams(io.Discard))
	assert.NilError(t, err)
	top := &cobra.Command{Use: "docker", SilenceErrors: true, SilenceUsage: true, TraverseChildren: true}
	top.AddCommand(NewRootCommand(dockerCLI, NewInterrupts(t.Context(), nil), ""))
	top.SetArgs(append([]string{"ralph"}, args...))
	return UsageError(top.Execute())
}

func TestFlagsOfCommandsBeforeThemHaveAHint(t *testing.T) {
	for _, name := range []string{runflags.Build, runflags.Plan, runflags.Run} {
		for _, f := range runflags.Of(name).Flags {
			if f.Name == runflags.Help || f.Name == runflags.DryRun { // which has another meaning before the command
				continue
			}
			args := []string{"--" + f.Name}
			if f.Arg != "" {
				args = append(args, "8")
			}
			err := failing(t, append(args, name)...)
			assert.ErrorContains(t, err, "unknown flag: --"+f.Name)
			hints := hint.Of(err)
			assert.Assert(t, len(hints) == 1 && strings.HasPrefix(hints[0], "pass it after ") && strings.Contains(hints[0], name), "%s: %q", f.Name, hints)
		}
	}
	assert.DeepEqual(t, hint.Of(failing(t, "-n", "3", "build")), []string{"pass it after build or plan"})
	assert.Equal(t, len(hint.Of(failing(t, "--nonsense", "3", "build"))), 0)
}
