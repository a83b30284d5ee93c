package notify

import (
	"os/exec"
	"syscall"
)

// ownSession lets a command outlive the console's Ctrl+C.
func ownSession(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

func ownGroup(*exec.Cmd) {}
