package plugin

import (
	"regexp"
	"strings"
	"testing"

	"github.com/docker/cli/cli/command"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"gotest.tools/v3/assert"
)

// TestHelpReadsLikeDockers checks what is the same in all help of the Docker CLI:
// short imperative lines without a full stop.
func TestHelpReadsLikeDockers(t *testing.T) {
	dockerCLI, err := command.NewDockerCli()
	assert.NilError(t, err)
	checked := 0
	line := func(where, text string, most int) {
		checked++
		assert.Check(t, regexp.MustCompile(`^[A-Z]`).MatchString(text), "%s: %q starts with a capital letter", where, text)
		assert.Check(t, !strings.HasSuffix(text, "."), "%s: %q ends with a full stop", where, text)
		assert.Check(t, len(text) <= most, "%s: %q is longer than %d characters", where, text, most)
	}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		path := cmd.CommandPath()
		if !cmd.Hidden {
			line(path, cmd.Short, 60)
			for long := range strings.Lines(cmd.Long) {
				assert.Check(t, len(strings.TrimSpace(long)) <= 86, "%s: %q is too wide", path, long)
			}
		}
		cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			first, _, _ := strings.Cut(f.Usage, "\n")
			line(path+" --"+f.Name, strings.TrimSuffix(first, ":"), 72)
		})
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(NewRootCommand(dockerCLI, nil, ""))
	assert.Assert(t, checked > 80, "only %d lines", checked)
}
