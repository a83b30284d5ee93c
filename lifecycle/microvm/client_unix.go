//go:build unix

package microvm

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// ownGroup puts a command into its own process group, all of which is terminated at the end
// of the command's context: the Docker CLI runs plugins in processes of their own.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		group := -cmd.Process.Pid
		time.AfterFunc(killDelay, func() {
			if !isReused(cmd.Process) {
				_ = syscall.Kill(group, syscall.SIGKILL)
			}
		})
		return endGroup(group)
	}
}

// isReused reports whether the PID of a process, and its process group ID, are another one's.
func isReused(p *os.Process) bool {
	return errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone) && syscall.Kill(p.Pid, 0) == nil
}

func endGroup(group int) error {
	err := syscall.Kill(group, syscall.SIGTERM)
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}

// ownSession lets a command outlive this process and its terminal.
func ownSession(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// resized signals a program that the size of its terminal has changed.
func resized(cmd *exec.Cmd) { _ = cmd.Process.Signal(syscall.SIGWINCH) }
