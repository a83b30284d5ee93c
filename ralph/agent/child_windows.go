package agent

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

func sysProcAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

// interruptGroup does nothing: Windows sends Ctrl+C to all processes of the console.
func interruptGroup(*os.Process) {}

func killGroup(p *os.Process) { _ = p.Kill() }

func exitCode(e *exec.ExitError) int { return e.ExitCode() }

type family struct{}

func (*family) remember(*exec.Cmd) {}

func (*family) started(int) {}

// KillLeftovers does nothing on Windows.
func KillLeftovers() int { return 0 }

// kill kills a child and its descendants.
func (*family) kill(running int) {
	if running != 0 {
		_ = exec.Command("taskkill", "/T", "/F", "/PID", strconv.Itoa(running)).Run()
	}
}
