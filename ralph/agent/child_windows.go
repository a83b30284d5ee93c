package agent

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

func sysProcAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

// interruptGroup does nothing: on a console Windows itself delivers Ctrl+C to
// every process of it.
func interruptGroup(*os.Process) {}

func killGroup(p *os.Process) { _ = p.Kill() }

func exitCode(e *exec.ExitError) int { return e.ExitCode() }

type family struct{}

func (*family) remember(*exec.Cmd) {}

func (*family) started(int) {}

// EndLeftovers finds nothing here.
func EndLeftovers() int { return 0 }

// kill ends the tree under a running child.
func (*family) kill(running int) {
	if running != 0 {
		_ = exec.Command("taskkill", "/T", "/F", "/PID", strconv.Itoa(running)).Run()
	}
}
