//go:build unix

package lifecycle

import (
	"os/exec"
	"syscall"
)

// Outlive lets a command outlive this process and its terminal.
func Outlive(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
