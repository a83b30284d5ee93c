package host

import (
	"path"
	"strings"

	"github.com/docker-ralph/docker-ralph/wire"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// Commands that are forwarded to ralph in a sandbox.
const (
	planCommand  = "plan"
	BuildCommand = "build"
	// RunCommand starts the agent interactively.
	RunCommand = "run"
	// ShellCommand starts a shell.
	ShellCommand = "shell"
	// TaskCommand starts no agent.
	TaskCommand = "task"
)

// IsLoop reports whether a command is a loop, which can run in the background, be
// followed and attached to.
func IsLoop(command string) bool { return command == planCommand || command == BuildCommand }

// LoopCommand returns the name of a command in a sandbox, and whether it is a loop. Its command
// line may begin with another program.
func LoopCommand(args []string) (name string, loop bool) {
	for i, arg := range args {
		if path.Base(strings.TrimPrefix(arg, "=")) == wire.Program && i+1 < len(args) {
			name := strings.TrimPrefix(args[i+1], "=")
			return termsafe.Line(name), IsLoop(name)
		}
	}
	if len(args) == 0 {
		return "?", false
	}
	return termsafe.Line(path.Base(args[0])), false
}
