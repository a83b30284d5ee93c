// Package guest holds the hidden commands of ralph that the host side of
// docker-ralph calls inside a sandbox. They are in the program itself, because
// an image need not contain anything but git and the agent, and because a
// static program of ours does not load libraries that the agent could have
// replaced.
package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

// streams are where a command writes: its result, and everything else.
type streams struct{ stdout, stderr io.Writer }

// Commands lists the hidden commands by their names, as ralph dispatches
// them. Each takes the arguments after its name and returns an exit code;
// results go to the standard output, errors are written to stderr.
func Commands(stderr io.Writer) map[string]func(args []string) int {
	ctx := context.Background() //nolint:forbidigo // a hidden command has no caller in the program
	out := streams{os.Stdout, stderr}
	return map[string]func([]string) int{
		"_bootstrap":   command(stderr, func(args []string) error { return runBootstrap(ctx, out, args) }),
		"_branch":      command(stderr, func(args []string) error { return runBranch(ctx, out, args) }),
		"_dispatch":    command(stderr, func(args []string) error { return runDispatch(ctx, out, args) }),
		"_dispatched":  command(stderr, func(args []string) error { return runDispatched(out, args) }),
		"_dispatches":  command(stderr, func(args []string) error { return runDispatches(out, args) }),
		"_exec":        command(stderr, runExec),
		"_finish":      command(stderr, runFinish),
		"_hold":        command(stderr, func(args []string) error { return runHold(ctx, args) }),
		"_init":        command(stderr, func([]string) error { return runInit(ctx, out) }),
		"_install":     command(stderr, runInstall),
		"_own":         command(stderr, runOwn),
		"_signal":      command(stderr, runSignal),
		"_host-config": command(stderr, runHostConfig),
	}
}

func command(stderr io.Writer, run func([]string) error) func([]string) int {
	return func(args []string) int {
		err := run(args)
		if err == nil {
			return 0
		}
		_, _ = fmt.Fprintln(stderr, "Error:", err)
		if coded := (codedError{}); errors.As(err, &coded) {
			return coded.code
		}
		return 1
	}
}

// codedError is an error with an exit code of its own.
type codedError struct {
	code int
	err  error
}

func (e codedError) Error() string { return e.err.Error() }

func (e codedError) Unwrap() error { return e.err }

var errUsage = errors.New("this command is for docker-ralph's own use")
