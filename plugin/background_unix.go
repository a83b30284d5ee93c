//go:build unix

package plugin

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/moby/term"
	"golang.org/x/sys/unix"

	"github.com/docker-ralph/docker-ralph/hint"
)

// canDetach says whether a process can leave its terminal here.
const canDetach = true

// readyFile is the open file by which a process in the background reports its loop.
const readyFile = 3

// openBackground returns that file in a process in the background, nil in others. Child
// processes do not inherit it.
func openBackground() (*os.File, error) {
	if os.Getenv(backgroundEnv) == "" {
		return nil, nil
	}
	if err := os.Unsetenv(backgroundEnv); err != nil {
		return nil, err
	}
	if _, err := unix.FcntlInt(readyFile, unix.F_GETFD, 0); err != nil {
		return nil, hint.Wrap(fmt.Errorf("%s is reserved for docker ralph", backgroundEnv), "unset it")
	}
	unix.CloseOnExec(readyFile)
	return os.NewFile(readyFile, "ready"), nil
}

// startBackground starts this command again in its own session, and returns the other end
// of [readyFile]. Secrets are only in its environment, as in ours.
func startBackground() (process *os.Process, ready *os.File, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	ready, theirs, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = theirs.Close() }()
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool {
		return strings.HasPrefix(kv, "DOCKER_CLI_PLUGIN_SOCKET=") // ends with the Docker CLI
	})
	process, err = os.StartProcess(self, os.Args, &os.ProcAttr{
		Env: append(env, backgroundEnv+"=1"), Files: []*os.File{os.Stdin, os.Stdout, os.Stderr, theirs}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return nil, nil, errors.Join(err, ready.Close())
	}
	return process, ready, nil
}

// saveTerminal returns the state of the terminal; nil for none.
func saveTerminal() *term.State {
	state, err := term.SaveState(os.Stdin.Fd())
	if err != nil {
		return nil
	}
	return state
}

// releaseTTY restores the state of the terminal and closes all files that refer to it.
func releaseTTY(before *term.State) func(crash *os.File) error {
	return func(crash *os.File) error {
		if before != nil {
			_ = term.RestoreTerminal(os.Stdin.Fd(), before) // it may be closed
		}
		null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		if err != nil {
			return fmt.Errorf("leaving the terminal: %w", err)
		}
		defer func() { _ = null.Close() }()
		if crash == nil {
			crash = null
		}
		for fd, to := range []*os.File{null, null, crash} {
			if err := duplicate(int(to.Fd()), fd); err != nil {
				return fmt.Errorf("leaving the terminal: %w", err)
			}
		}
		return nil
	}
}
