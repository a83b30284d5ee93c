// Package guest implements the hidden commands of ralph that the host side of
// docker-ralph runs inside a sandbox. They are part of the program because an image
// need only contain git and the agent, and because a static program does not load
// libraries that the agent could have replaced.
package guest

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/docker-ralph/docker-ralph/hint"
)

// streams are a command's outputs.
type streams struct{ stdout, stderr io.Writer }

// Commands returns the hidden commands by name. Each takes the arguments after its
// name and returns an exit code.
func Commands(stderr io.Writer) map[string]func(args []string) int {
	ctx := context.Background() //nolint:forbidigo // a hidden command has no caller in the program
	out := streams{os.Stdout, stderr}
	return map[string]func([]string) int{
		"_bootstrap":   command(stderr, func(args []string) error { return runBootstrap(ctx, out, args) }),
		"_branch":      command(stderr, func(args []string) error { return runBranch(ctx, out, args) }),
		"_busy":        command(stderr, func(args []string) error { return runBusy(out, args) }),
		"_dispatch":    command(stderr, func(args []string) error { return runDispatch(ctx, out, args) }),
		"_dispatches":  command(stderr, func(args []string) error { return runDispatches(out, args) }),
		"_exec":        command(stderr, runExec),
		"_finish":      command(stderr, runFinish),
		"_init":        command(stderr, func(args []string) error { return runInit(ctx, out, args) }),
		"_install":     command(stderr, runInstall),
		"_session":     command(stderr, func(args []string) error { return runSession(ctx, args) }),
		"_signal":      command(stderr, runSignal),
		"_host-config": command(stderr, runAgentConfig),
	}
}

func command(stderr io.Writer, run func([]string) error) func([]string) int {
	return func(args []string) int {
		err := run(args)
		if err == nil {
			return 0
		}
		hint.Print(stderr, err)
		if coded := (codedError{}); errors.As(err, &coded) {
			return coded.code
		}
		return 1
	}
}

// codedError is an error with an exit code.
type codedError struct {
	code int
	err  error
}

func (e codedError) Error() string { return e.err.Error() }

func (e codedError) Unwrap() error { return e.err }

var errUsage = errors.New("invalid arguments: this command is internal to docker-ralph")
