//go:build unix

package microvm

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// ownGroup puts a command into a process group of its own, which is ended as a
// whole when the command's context ends: the Docker CLI starts its plugins as
// processes of their own.
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

// isReused reports whether the number of a process, and with it that of its group,
// is another one's by now.
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

// ownSession makes a command go on whatever becomes of us and our terminal.
func ownSession(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// resized tells a program that its terminal has another size. One that the
// terminal controls hears of it anyway.
func resized(cmd *exec.Cmd) { _ = cmd.Process.Signal(syscall.SIGWINCH) }
