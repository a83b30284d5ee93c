//go:build unix && !linux

package proc

import "syscall"

func sysProcAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// family is empty here: without /proc only the process group is known.
type family struct{}

func (*family) remember() {}

func (*family) kill(int) {}
