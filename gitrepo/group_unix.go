//go:build unix

package gitrepo

import (
	"os/exec"
	"syscall"
)

// ownGroup keeps Ctrl+C from a process: it ends when we cancel it.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
