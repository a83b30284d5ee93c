package microvm

import (
	"os/exec"
	"syscall"
)

func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

func ownSession(cmd *exec.Cmd) { ownGroup(cmd) }

func resized(*exec.Cmd) {} // consoles signal their programs
