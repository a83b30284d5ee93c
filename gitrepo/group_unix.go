//go:build unix

package gitrepo

import (
	"os/exec"
	"syscall"
)

// ownGroup keeps Ctrl+C from a process. When we cancel it, it ends with what it has
// started: git may be behind a script.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
