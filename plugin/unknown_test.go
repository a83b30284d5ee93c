package plugin

import (
	"io"
	"strings"
	"testing"

	"github.com/docker/cli/cli/command"
	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/hint"
)

func TestMistypedCommandsAreSuggested(t *testing.T) {
	for line, tc := range map[string]struct{ err, hint string }{
		"biuld":              {"unknown command: ralph biuld", `did you mean "ralph build"?`},
		"--agent shell lgos": {"unknown command: ralph lgos", `did you mean "ralph logs"?`},
		"network allwo":      {"unknown command: ralph network allwo", `did you mean "ralph network allow"?`},
		"help network lss":   {"unknown command: ralph network lss", `did you mean "ralph network ls"?`},
		"help biuld":         {"unknown command: ralph biuld", `did you mean "ralph build"?`},
		"nonsense":           {"unknown command: ralph nonsense", ""},
		"--worktree w1":      {"unknown command: ralph w1", `if "w1" is the name of a worktree, pass --worktree=w1`},
		"build --daner":      {"unknown option '--daner'", `did you mean "--danger"?`},
		"plan now":           {"unknown option 'now'", `list the options with "docker ralph plan --help"`},
		"--cpus -1 build":    {`invalid argument "-1" for "--cpus" flag`, ""},
		"--memory -2 build":  {`invalid argument "-2" for "--memory" flag`, ""},
	} {
		t.Run(line, func(t *testing.T) {
			dockerCLI, err := command.NewDockerCli(command.WithCombinedStreams(io.Discard))
			assert.NilError(t, err)
			root := NewRootCommand(dockerCLI, NewInterrupts(t.Context(), nil), "")
			root.PersistentPreRunE = nil
			root.SetArgs(strings.Fields(line))
			err = root.Execute()
			assert.ErrorContains(t, err, tc.err)
			assert.Equal(t, strings.Join(hint.Of(err), "\n"), tc.hint)
		})
	}
}

func TestHelpCommand(t *testing.T) {
	for line, want := range map[string]string{
		"help": "Run a coding agent in a sandbox", "help build": "Usage: docker ralph build [options]", "help task list": "Usage: docker ralph task <command>",
		"help network ls": "List the rules of the network policy",
	} {
		var out strings.Builder
		dockerCLI, err := command.NewDockerCli(command.WithCombinedStreams(&out))
		assert.NilError(t, err)
		root := NewRootCommand(dockerCLI, NewInterrupts(t.Context(), nil), "")
		root.PersistentPreRunE = nil
		root.SetArgs(strings.Fields(line))
		assert.NilError(t, root.Execute())
		assert.Assert(t, strings.Contains(out.String(), want), out.String())
		assert.Assert(t, !strings.Contains(out.String(), "docker docker"))
	}
}
