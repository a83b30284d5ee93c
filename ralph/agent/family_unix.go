//go:build unix && !linux

package agent

import (
	"os/exec"
	"syscall"
)

func sysProcAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// family is empty here: without /proc only the process group is known.
type family struct{}

func (*family) remember(*exec.Cmd) {}

func (*family) started(int) {}

func (*family) kill(int) {}

// EndLeftovers finds nothing here.
func EndLeftovers() int { return 0 }
