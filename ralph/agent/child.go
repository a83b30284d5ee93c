package agent

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"time"
)

// killDeadline bounds how long Kill and Wait look for processes that refuse
// to disappear, e.g. because they hang in the kernel.
const killDeadline = 5 * time.Second

// Child is a running agent, which can neither outlive ralph nor leave processes
// behind. Its methods may be called by several goroutines.
//
// It gets a session of its own: it has no terminal to stop on, and its process group
// can be signalled as one. That alone is not enough, because agents start their tools
// in further sessions; on Linux, what such tools leave behind is therefore also
// adopted and killed.
type Child struct {
	cmd    *exec.Cmd
	family family
	done   chan struct{}
	err    error
}

// StartChild starts cmd in a session of its own. cmd must not set SysProcAttr.
func StartChild(cmd *exec.Cmd) (*Child, error) {
	c := &Child{cmd: cmd, done: make(chan struct{})}
	c.family.remember(cmd)
	cmd.SysProcAttr = sysProcAttr()
	started := make(chan error)
	go func() {
		// The kernel's parent-death signal follows the thread that started
		// the child, so that thread has to stay.
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

// Done is closed when the child itself has ended.
func (c *Child) Done() <-chan struct{} { return c.done }

// Interrupt asks the child's process group to end (SIGINT).
func (c *Child) Interrupt() { interruptGroup(c.cmd.Process) }

// Kill ends the child, its process group and all their descendants at once.
func (c *Child) Kill() {
	killGroup(c.cmd.Process)
	c.family.kill(c.cmd.Process.Pid)
}

// Wait waits for the child, then kills what it left running. It returns the
// exit code; a child ended by signal n has the code 128+n, as in a shell.
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
