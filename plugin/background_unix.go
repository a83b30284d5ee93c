//go:build unix

package plugin

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/moby/term"
	"golang.org/x/sys/unix"
)

// canDetach says whether a process can leave its terminal here.
const canDetach = true

// The open files of a process in the background that lead to the one which has
// started it.
const (
	messagesFile = 3
	answersFile  = 4
)

// openBackground returns the line to the process that has started this one to run
// a loop; nil if none has. Nothing that this process starts inherits it.
func openBackground() (*background, error) {
	how := os.Getenv(backgroundEnv)
	if how == "" {
		return nil, nil
	}
	if err := os.Unsetenv(backgroundEnv); err != nil {
		return nil, err
	}
	for _, fd := range []int{messagesFile, answersFile} {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil {
			return nil, fmt.Errorf("%s is reserved for internal use: unset it", backgroundEnv)
		}
		unix.CloseOnExec(fd)
	}
	return &background{os.NewFile(messagesFile, "messages"), os.NewFile(answersFile, "answers"), how == backgroundAsks}, nil
}

// startBackground starts this command once more, in a session of its own. Secrets
// are in its environment, as they are in ours, and nowhere else.
func startBackground(asks bool) (*foreground, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	messagesRead, messages, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	answers, answersWrite, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, messagesRead.Close(), messages.Close())
	}
	cmd := exec.Command(self, os.Args[1:]...) //nolint:noctx // it outlives us
	how := backgroundSilent
	if asks {
		how = backgroundAsks
	}
	cmd.Env = []string{backgroundEnv + "=" + how}
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "DOCKER_CLI_PLUGIN_SOCKET=") { // it would end with the Docker CLI
			cmd.Env = append(cmd.Env, kv)
		}
	}
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = os.Stdout, os.Stderr, []*os.File{messages, answers}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	_, _ = messages.Close(), answers.Close()
	if err != nil {
		return nil, errors.Join(err, messagesRead.Close(), answersWrite.Close())
	}
	return &foreground{
		messages: bufio.NewReader(messagesRead), answers: answersWrite,
		interrupt: func() { _ = cmd.Process.Signal(os.Interrupt) },
		wait: func() (int, error) {
			err := cmd.Wait()
			if _, failed := errors.AsType[*exec.ExitError](err); failed {
				err = nil
			}
			return cmd.ProcessState.ExitCode(), err
		},
	}, nil
}

// saveTerminal remembers how the terminal is set; nil if there is none.
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
