// Package cli implements the command line of ralph.
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/docker-ralph/docker-ralph/wire"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/ralph/agent"
	"github.com/docker-ralph/docker-ralph/ralph/guest"
	"github.com/docker-ralph/docker-ralph/wire/help"
)

// Exit codes other than those of [loop.Stop].
const (
	exitOK      = 0
	exitFailure = 1
)

// Options configure the program.
type Options struct {
	// Version is printed by "ralph version".
	Version string
	// Hidden are further commands, with names that begin with an underscore. They
	// take the arguments after the name and return an exit code.
	Hidden map[string]func(args []string) int

	Stdin          *os.File
	Stdout, Stderr *os.File

	token string // marks the requests of the command itself to the host
}

// Run runs the command line args, including the program's name, and returns the exit
// code. As "task" the program is "ralph task", as [wire.SignProgram] it signs for git.
func Run(ctx context.Context, args []string, o Options) int {
	if len(args) == 0 {
		args = []string{"ralph"}
	}
	name, args := filepath.Base(args[0]), args[1:]
	if name == "task" {
		return o.task(ctx, args)
	}
	if name == wire.SignProgram {
		return guest.Sign(args, os.Getenv, o.Stderr)
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	command, args := args[0], args[1:]
	if !strings.HasPrefix(command, "_") { // which pass their environment on
		o.token = os.Getenv(wire.SessionTokenEnv)
		_ = os.Unsetenv(wire.SessionTokenEnv) // not for the agent's processes
	}
	switch command {
	case "--help", "-h":
		_, _ = fmt.Fprint(o.Stdout, help.Text("ralph"))
		return exitOK
	case string(agent.Plan), string(agent.Build):
		return o.loop(ctx, agent.Mode(command), args)
	case string(agent.Run):
		return o.run(ctx, args)
	case "shell":
		return o.shell(ctx, args)
	case "task":
		return o.task(ctx, args)
	case "version", "--version":
		_, _ = fmt.Fprintf(o.Stdout, "ralph %s\n", o.Version)
		return exitOK
	case "install-layout":
		return o.installLayout(args)
	case "_hook":
		if len(args) == 1 {
			o.hook(ctx, args[0])
		}
		return exitOK // a hook must not disturb the session
	case "--docker":
		return o.docker(ctx, args)
	case agent.ShellCommand:
		return o.shellAgent(ctx, args)
	}
	if hidden, ok := o.Hidden[command]; ok && strings.HasPrefix(command, "_") {
		return hidden(args)
	}
	o.complain(fmt.Sprintf("unknown command '%s'", command))
	_, _ = fmt.Fprintln(o.Stderr, "Run 'ralph --help' for usage")
	return exitFailure
}

func (o Options) complain(message string) { o.fail(errors.New(message)) }

func (o Options) fail(err error) { hint.Print(o.Stderr, err) }
