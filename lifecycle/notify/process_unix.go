//go:build unix

package notify

import (
	"os/exec"
	"syscall"
)

// ownGroup has the end of a command's context kill its descendants too.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
