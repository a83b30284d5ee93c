//go:build unix

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/internal/testutil/output"
)

// Commands, their output and exit codes, and waiting for events.

// timeout bounds everything that is waited for. It is reached only on a very busy
// machine.
const timeout = 3 * time.Minute

// result is how a command ended.
type result struct {
	code           int
	stdout, stderr string
}

// expect asserts the exit code.
func (r result) expect(t *testing.T, code int) result {
	t.Helper()
	assert.Equal(t, r.code, code, "stdout:\n%s\nstderr:\n%s", r.stdout, r.stderr)
	return r
}

// run runs a command to its end.
func run(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	return start(t, cmd).wait(t)
}

// process is a command that runs.
type process struct {
	cmd            *exec.Cmd
	stdout, stderr output.Buffer
	done           chan struct{}
	code           int  // once done is closed; 128+n after signal n
	hasChildren    bool // once done is closed: others of its group still run
}

// start starts a command. Where its output does not go anywhere yet, it is
// collected.
func start(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{cmd: cmd, done: make(chan struct{})}
	if cmd.Stdout == nil {
		cmd.Stdout = &p.stdout
	}
	if cmd.Stderr == nil {
		cmd.Stderr = &p.stderr
	}
	cmd.WaitDelay = 10 * time.Second
	assert.NilError(t, cmd.Start())
	p.reap(t)
	return p
}

// runSteps waits for the process in the background and makes sure that it does
// not outlive the test.
func (p *process) reap(t *testing.T) {
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // the error is in the exit code
		p.code = p.cmd.ProcessState.ExitCode()
		if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			p.code = 128 + int(status.Signal())
		}
		p.hasChildren = syscall.Kill(-p.cmd.Process.Pid, 0) == nil
	}()
	t.Cleanup(func() {
		p.signalGroup(syscall.SIGKILL)
		<-p.done
	})
}

// wait waits for the end of the process.
func (p *process) wait(t *testing.T) result {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(timeout):
		t.Fatalf("%q still runs\nstdout:\n%s\nstderr:\n%s", p.cmd.Args, p.stdout.String(), p.stderr.String())
	}
	return result{p.code, p.stdout.String(), p.stderr.String()}
}

// withoutProgress removes what a command prints while a fetch is slow.
func withoutProgress(stderr string) string {
	return regexp.MustCompile(`(?m)^Fetching commits from the sandbox \S+\n`).ReplaceAllString(stderr, "")
}

// iterations waits for the end of a loop that runs an agent so many times: for each
// run as long as for a command.
func (p *process) iterations(t *testing.T, n int) result {
	t.Helper()
	for i := range n {
		eventually(t, func() error {
			select {
			case <-p.done:
				return nil
			default:
			}
			line := fmt.Sprintf("Iteration %d: ", i+1)
			if said := p.stdout.String() + p.stderr.String(); !strings.Contains(said, line) {
				return fmt.Errorf("no %q in: %s", line, said)
			}
			return nil
		})
	}
	return p.wait(t)
}

// signal sends a signal to the process alone.
func (p *process) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	assert.NilError(t, p.cmd.Process.Signal(sig))
}

// signalGroup sends a signal to the process group, as a terminal does. The tests start
// so many processes that IDs are reused, so the group is checked first.
func (p *process) signalGroup(sig syscall.Signal) {
	pid := p.cmd.Process.Pid
	select {
	case <-p.done:
		if !p.hasChildren || syscall.Kill(pid, 0) == nil {
			return
		}
	default:
	}
	_ = syscall.Kill(-pid, sig) // an empty group has ended
}

// A process ID that another process has got since is not signalled.
func TestSignalGroupSparesReusedProcessIDs(t *testing.T) {
	other := start(t, groupOf(exec.CommandContext(t.Context(), "sleep", "60")))
	ended := &process{cmd: other.cmd, done: make(chan struct{})}
	close(ended.done)
	for _, left := range []bool{false, true} {
		ended.hasChildren = left
		ended.signalGroup(syscall.SIGKILL)
	}
	other.signalGroup(syscall.SIGTERM) // ends it with another code than SIGKILL before
	assert.Equal(t, other.wait(t).code, 128+int(syscall.SIGTERM))

	// Children that outlive the process get the signal.
	parent := start(t, groupOf(exec.CommandContext(t.Context(), "sh", "-c", "sleep 60 >/dev/null 2>&1 & echo $!")))
	child, err := strconv.Atoi(strings.TrimSpace(parent.wait(t).expect(t, 0).stdout))
	assert.NilError(t, err)
	parent.signalGroup(syscall.SIGKILL)
	eventually(t, func() error {
		if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child)); err == nil && !strings.Contains(string(stat), ") Z ") {
			return fmt.Errorf("%d still runs", child)
		}
		return nil
	})
}

// groupOf puts a command into a new process group.
func groupOf(cmd *exec.Cmd) *exec.Cmd {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// eventually waits until check returns nil. The check runs as part of the
// test, so that it may assert.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	deadline := time.Now().Add(timeout)
	for again := time.NewTicker(20 * time.Millisecond); ; <-again.C {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %s still: %v", timeout, err)
		}
	}
}

// waitForFile waits for a file.
func waitForFile(t *testing.T, path string) {
	t.Helper()
	eventually(t, func() error {
		_, err := os.Stat(path)
		return err
	})
}
