package plugin

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/docker/cli/cli/command"
	"github.com/spf13/cobra"
	"gotest.tools/v3/assert"
)

// TestDocumentedCommandsExist checks that each "docker ralph" command line in the
// docs names a command and flags that there are.
func TestDocumentedCommandsExist(t *testing.T) {
	top, err := filepath.Glob("../*.md")
	assert.NilError(t, err)
	pages, err := filepath.Glob("../docs/*.md")
	assert.NilError(t, err)
	reference, err := filepath.Glob("../docs/reference/*.md")
	assert.NilError(t, err)
	checked := 0
	for _, page := range slices.Concat(top, pages, reference) {
		content, err := os.ReadFile(page)
		assert.NilError(t, err)
		for _, m := range regexp.MustCompile("(?m)docker ralph( [^`|\\n]*)").FindAllStringSubmatch(documented(string(content)), -1) {
			line, _, _ := strings.Cut(m[1], "#")
			if args := strings.Fields(strings.NewReplacer("[", " ", "]", " ", `"`, " ").Replace(line)); len(args) > 0 {
				checked++
				assert.Check(t, parseLine(t, args), "%s: docker ralph%s", page, line)
			}
		}
	}
	assert.Assert(t, checked > 100, "only %d command lines", checked)
}

// documented returns what a page prints as code.
func documented(page string) string {
	return strings.Join(regexp.MustCompile("(?ms)^```console\n.*?^```$|`docker ralph[^`]*`").FindAllString(page, -1), "\n")
}

// parseLine reads a command line as the plugin does, without running it. What follows
// plan, build, task, run and shell is ralph's.
func parseLine(t *testing.T, args []string) error {
	t.Helper()
	dockerCLI, err := command.NewDockerCli()
	assert.NilError(t, err)
	root := NewRootCommand(dockerCLI, nil, "")
	root.SetArgs(args)
	cmd, rest, err := root.Traverse(args)
	switch {
	case err != nil:
		return err
	case cmd.DisableFlagParsing:
		return nil
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	if rest := cmd.Flags().Args(); cmd.HasSubCommands() && len(rest) > 0 && isWord(rest[0]) {
		return cobra.NoArgs(cmd, rest)
	}
	return nil
}

// isWord tells a command from a placeholder such as COMMAND.
func isWord(arg string) bool { return regexp.MustCompile(`^[a-z-]+$`).MatchString(arg) }
