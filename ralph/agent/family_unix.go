//go:build unix && !linux

package agent

import (
	"os/exec"
	"syscall"
)

func sysProcAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// family is empty: without /proc only the process group is known.
type family struct{}

func (*family) remember(*exec.Cmd) {}

func (*family) started(int) {}

func (*family) kill(int) {}

// KillLeftovers does nothing without /proc.
func KillLeftovers() int { return 0 }
