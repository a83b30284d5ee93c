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
		"build --daner":      {"unknown flag: --daner", `did you mean "--danger"?`},
		"logs --worktre=x":   {"unknown flag: --worktre", `did you mean "--worktree"?`},
		"logs --worktree":    {"flag needs an argument: --worktree", ""},
		"stop --worktree x":  {"unknown flag: --worktree", "run it in the worktree"},
		"ls --agent x":       {"unknown flag: --agent", `pass it before "ls"`},
		"plan now":           {"'ralph plan' accepts no arguments", ""},
		"run now":            {"'ralph run' accepts no arguments", "pass a prompt with -p"},
		"exec x":             {"unknown command: ralph exec", `did you mean "ralph shell"?`},
		"ps":                 {"unknown command: ralph ps", `did you mean "ralph ls"?`},
		"info":               {"unknown command: ralph info", `did you mean "ralph status"?`},
		"restart x":          {"unknown command: ralph restart", `did you mean "ralph repair"?`},
		"rmi":                {"unknown command: ralph rmi", `did you mean "ralph image prune"?`},
		"pull":               {"unknown command: ralph pull", `did you mean "ralph image pull"?`},
		"prune":              {"unknown command: ralph prune", `did you mean "ralph system prune"?`},
		"init":               {"unknown command: ralph init", `did you mean "ralph config init"?`},
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
		"help": "Run a coding agent in a sandbox", "help build": "ralph build [OPTIONS]", "help task": "For agents and scripts:\n  plan-sync, ", "help task create": "\n\n  create <id> <title>",
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
