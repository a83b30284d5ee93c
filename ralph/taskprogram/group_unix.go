//go:build unix

package taskprogram

import (
	"os/exec"
	"syscall"
)

// ownGroup puts the program and all that it starts into a process group, which
// ends as one.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
