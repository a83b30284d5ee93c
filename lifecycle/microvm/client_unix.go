//go:build unix

package microvm

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// setProcessGroup puts a command into its own process group, all of which is terminated at the end
// of the command's context: the Docker CLI runs plugins in processes of their own.
func setProcessGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		group := -cmd.Process.Pid
		time.AfterFunc(killDelay, func() {
			if !isReused(cmd.Process) {
				_ = syscall.Kill(group, syscall.SIGKILL)
			}
		})
		return terminateGroup(group)
	}
}

// isReused reports whether the PID of a process, and its process group ID, are another one's.
func isReused(p *os.Process) bool {
	return errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone) && syscall.Kill(p.Pid, 0) == nil
}

func terminateGroup(group int) error {
	err := syscall.Kill(group, syscall.SIGTERM)
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}

// signalResize signals a program that the size of its terminal has changed.
func signalResize(cmd *exec.Cmd) { _ = cmd.Process.Signal(syscall.SIGWINCH) }
