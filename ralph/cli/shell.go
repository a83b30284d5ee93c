package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/moby/term"

	"github.com/docker-ralph/docker-ralph/config/runflags"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/ralph/agent"
)

// Exit codes of a shell for programs that cannot be started.
const (
	exitNotExecutable = 126
	exitNotFound      = 127
	exitSignal        = 128 // plus the signal number
)

// shell implements "ralph shell": a shell or command in the agent's environment. It does
// not require an agent or a valid configuration.
func (o Options) shell(ctx context.Context, args []string) int {
	switch {
	case len(args) > 0 && (args[0] == "--help" || args[0] == "-h"):
		_, _ = fmt.Fprint(o.Stdout, runflags.Of("shell").Help())
		return exitOK
	case len(args) > 0 && args[0] == "--":
		args = args[1:]
	case len(args) > 0 && strings.HasPrefix(args[0], "-"):
		o.fail(hint.Wrap(fmt.Errorf("unknown option '%s'", args[0]), "list the options with --help"))
		return exitFailure
	}
	return o.withSession(ctx, func(s *agentEnv) (int, error) {
		if len(args) == 0 {
			path, err := agent.BestShell()
			if err != nil {
				return exitNotFound, err
			}
			args = []string{path}
		}
		cmd := exec.CommandContext(context.WithoutCancel(ctx), s.find(args[0]), args[1:]...)
		cmd.Env = s.environ()
		return o.foreground(cmd)
	})
}

// find resolves ralph to this program.
func (s *agentEnv) find(name string) string {
	if name == "ralph" && s.binDir != "" {
		return filepath.Join(s.binDir, name)
	}
	return name
}

// foreground runs a command with the program's streams and returns a shell's exit code.
func (o Options) foreground(cmd *exec.Cmd) (int, error) {
	cmd.Stdin, cmd.Stdout, cmd.Stderr = o.Stdin, o.Stdout, o.Stderr
	var err error
	if term.IsTerminal(o.Stdin.Fd()) {
		err = runForeground(cmd)
	} else {
		err = runSignalled(cmd, func(os.Signal) bool { return true })
	}
	exit, ended := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		return exitOK, nil
	case !ended && (errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist)):
		return exitNotFound, fmt.Errorf("%s: not found", cmd.Args[0])
	case !ended:
		return exitNotExecutable, fmt.Errorf("%s: cannot execute: %w", cmd.Args[0], err)
	case exit.ExitCode() >= 0:
		return exit.ExitCode(), nil
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return exitSignal + int(status.Signal()), nil
	}
	return exitFailure, nil
}
