package lifecycle

import (
	"os/exec"
	"syscall"
)

// Outlive lets a command outlive this process, and the console's Ctrl+C.
func Outlive(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}
