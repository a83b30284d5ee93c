package agent

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// killTimeout bounds how long Kill and Wait wait for processes that hang in the kernel.
const killTimeout = 5 * time.Second

// Child is a running agent. It cannot outlive ralph or leave processes behind. Its
// methods are safe for concurrent use.
//
// It runs in a new session: it has no controlling terminal, and its process group can be
// signalled as a whole. Agents start tools in further sessions; orphaned processes of
// these are adopted and killed as well.
type Child struct {
	cmd    *exec.Cmd
	family family
	done   chan struct{}
	err    error
}

// StartChild starts cmd in a new session. cmd must not set SysProcAttr.
func StartChild(cmd *exec.Cmd) (*Child, error) {
	c := &Child{cmd: cmd, done: make(chan struct{})}
	c.family.remember(cmd)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		// The parent-death signal is sent when the starting thread exits.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		c.err = cmd.Wait()
		close(c.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", cmd.Path, err)
	}
	c.family.started(cmd.Process.Pid)
	return c, nil
}

// Done is closed when the child has exited.
func (c *Child) Done() <-chan struct{} { return c.done }

// Interrupt sends SIGINT to the child's process group.
func (c *Child) Interrupt() { _ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGINT) }

// Kill kills the child, its process group and all descendants.
func (c *Child) Kill() {
	killGroup(c.cmd.Process)
	c.family.kill(c.cmd.Process.Pid)
}

// Wait waits for the child, then kills its remaining processes. It returns the exit code,
// which is 128+n for signal n, as in a shell.
func (c *Child) Wait() (code int, err error) {
	<-c.done
	killGroup(c.cmd.Process)
	c.family.kill(0)
	var exit *exec.ExitError
	switch {
	case c.err == nil:
		return 0, nil
	case errors.As(c.err, &exit):
		return exitCode(exit), nil
	default:
		return 0, fmt.Errorf("waiting for %s: %w", c.cmd.Path, c.err)
	}
}

func killGroup(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }

func exitCode(e *exec.ExitError) int {
	if ws, ok := e.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return e.ExitCode()
}
